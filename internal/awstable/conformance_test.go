package awstable_test

import (
	"testing"

	"fedpost/internal/awstest"
	"fedpost/internal/table/tabletest"
)

func TestConformance(t *testing.T) {
	awstest.Require(t, "DYNAMODB")
	shared := awstest.Table(t)
	tabletest.Run(t, func(t *testing.T) tabletest.Harness {
		return tabletest.Harness{Table: shared}
	})
}
