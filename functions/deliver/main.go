// Command deliver is the Lambda function that delivers the queues' messages to inboxes.
package main

import (
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	app "fedpost/internal/app/lambda"
)

func main() {
	log := lambdacontext.NewLogger()
	handler, err := app.Deliver(log)
	if err != nil {
		log.Error("cannot start", "error", err)
		os.Exit(1)
	}
	lambda.Start(handler)
}
