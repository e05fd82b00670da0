package lambda

import (
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
)

// Local is the engine for a process that runs all functions by itself on AWS's
// services, or on a stand-in that AWS_ENDPOINT_URL names.
func Local(c config.AWS, kind config.Queueing, cfg aws.Config, log *slog.Logger) (app.Ports, error) {
	p, err := portsOf(cfg, kind, c.Queues, c.Table, log)
	if err != nil {
		return app.Ports{}, err
	}
	p.Sealer, err = sealerOf(cfg, c.Sealing)
	return p, err
}
