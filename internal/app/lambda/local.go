package lambda

import (
	"log/slog"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
)

// Local is the engine for a process that runs all functions by itself on AWS's
// services, or on a stand-in that AWS_ENDPOINT_URL names.
func Local(c config.AWS, log *slog.Logger) (app.Ports, error) {
	p, _, err := ports(c.Queues, c.Table, log)
	if err != nil {
		return app.Ports{}, err
	}
	p.Sealer, err = sealer(c.Sealing)
	return p, err
}
