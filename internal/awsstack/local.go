package awsstack

import (
	"log/slog"

	"fedpost/internal/config"
	"fedpost/internal/stack"
)

// Local is the engine for a process that runs all functions by itself on AWS's
// services, or on a stand-in that AWS_ENDPOINT_URL names.
func Local(c config.AWS, log *slog.Logger) (stack.Ports, error) {
	p, _, err := ports(c.Queues, c.Table, log)
	if err != nil {
		return stack.Ports{}, err
	}
	p.Sealer, err = sealer(c.Sealing)
	return p, err
}
