package awstest

import (
	"bytes"
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	dynamotable "fedpost/internal/engine/dynamodb"
	"fedpost/internal/engine/table"
)

// TableLacks returns tabletest.Harness.Lacks for the DynamoDB server. The table name
// must exist there.
func TableLacks(t testing.TB, name string) func(name string) string {
	return lacks(t, probed{DynamoDB(t), name}, tableGaps)
}

// TableCasesExcused lists the cases that a probe can excuse.
func TableCasesExcused() []string { return casesOf(tableGaps) }

type probed struct {
	*dynamodb.Client
	table string
}

var tableGaps = []gap[probed]{
	{"refuses binary items below 400 KiB", []string{"ItemUpTo400KiB"}, probeRefusesLargeItems},
}

func probeRefusesLargeItems(ctx context.Context, p probed) (bool, error) {
	_, err := p.PutItem(ctx, &dynamodb.PutItemInput{TableName: &p.table, Item: map[string]types.AttributeValue{
		dynamotable.PK:   &types.AttributeValueMemberS{Value: "probe"},
		dynamotable.SK:   &types.AttributeValueMemberS{Value: "large"},
		dynamotable.Data: &types.AttributeValueMemberB{Value: bytes.Repeat([]byte{0xff}, table.MaxItem-2048)},
	}})
	return err != nil, nil
}
