package lambda

import (
	"log/slog"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/dynamodb"
)

// Local is the engine of a process on AWS's services, or on a stand-in at AWS_ENDPOINT_URL.
func Local(c config.AWS, kind config.Queueing, cfg aws.Config, log *slog.Logger) (app.Ports, error) {
	p, err := ports(cfg, kind, c.Queues, c.Table, log)
	if err != nil {
		return app.Ports{}, err
	}
	p.Sealer, err = sealer(cfg, c.Sealing)
	return p, err
}

// Records is the part of the engine that keeps records, with their sealer.
func Records(t config.Table, s config.Sealing, cfg aws.Config, log *slog.Logger) (app.Ports, error) {
	client, err := awssdk.DynamoDB(cfg, os.Getenv)
	if err != nil {
		return app.Ports{}, err
	}
	p := app.Ports{Table: dynamodb.New(client, t.Name), Log: log}
	p.Sealer, err = sealer(cfg, s)
	return p, err
}
