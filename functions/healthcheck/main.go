// Command healthcheck is the Lambda function that runs every minute: it probes servers that are down and
// releases waiting deliveries.
package main

import (
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	app "fedpost/internal/app/lambda"
)

func main() {
	log := lambdacontext.NewLogger()
	handler, err := app.HealthCheck(log)
	if err != nil {
		log.Error("cannot start", "error", err)
		os.Exit(1)
	}
	lambda.Start(handler)
}
