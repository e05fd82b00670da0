package awstest

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	dynamotable "fedpost/internal/engine/dynamodb"
	"fedpost/internal/engine/table"
)

// Table makes a table.
func Table(t testing.TB) table.Table {
	t.Helper()
	return dynamotable.New(DynamoDB(t), TableName(t))
}

// TableName is like Table and returns the table's name.
func TableName(t testing.TB) string {
	t.Helper()
	name := TimelessTable(t)
	_, err := DynamoDB(t).UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamotable.Expires), Enabled: aws.Bool(true)},
	})
	if err != nil {
		t.Fatalf("set time to live of table %s: %v", name, err)
	}
	return name
}

// TimelessTable makes a table without a time to live and returns its name. Items in the
// table never expire by the server's clock, as tests with a clock of their own need it.
func TimelessTable(t testing.TB) string {
	t.Helper()
	client, name := DynamoDB(t), name()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			attribute(dynamotable.PK, types.ScalarAttributeTypeS), attribute(dynamotable.SK, types.ScalarAttributeTypeS),
			attribute(dynamotable.DueShard, types.ScalarAttributeTypeS), attribute(dynamotable.DueAt, types.ScalarAttributeTypeN),
		},
		KeySchema: keys(dynamotable.PK, dynamotable.SK),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(dynamotable.DueIndex), KeySchema: keys(dynamotable.DueShard, dynamotable.DueAt),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	})
	if err != nil {
		t.Fatalf("make table %s: %v", name, err)
	}
	cleanup(t, "table "+name, func(ctx context.Context) error {
		_, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
		return err
	})
	made := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = 100 * time.Millisecond })
	if err := made.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
		t.Fatalf("make table %s: %v", name, err)
	}
	return name
}

func attribute(name string, of types.ScalarAttributeType) types.AttributeDefinition {
	return types.AttributeDefinition{AttributeName: &name, AttributeType: of}
}

func keys(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange},
	}
}
