package dynamodb_test

import (
	"slices"
	"testing"
	"time"

	"fedpost/internal/engine/dynamodb"
	"fedpost/internal/engine/table/tabletest"
	"fedpost/internal/testkit/engines/awstest"
)

func TestConformance(t *testing.T) {
	client, name := awstest.DynamoDB(t), awstest.TableName(t)
	lacks := awstest.TableLacks(t, name)
	tabletest.Run(t, func(t *testing.T) tabletest.Harness {
		h := tabletest.Harness{Table: dynamodb.New(client, name), Lacks: lacks}
		if !awstest.Local("DYNAMODB") {
			h.Settle = func() { awstest.Wait(t, time.Second) }
		}
		return h
	})
}

func TestProbesExcuseCasesThatExist(t *testing.T) {
	for _, name := range awstest.TableCasesExcused() {
		if !slices.Contains(tabletest.Cases(), name) {
			t.Errorf("the suite has no case %s", name)
		}
	}
}
