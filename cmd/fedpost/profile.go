// Package profile finds AWS credentials where an operator keeps them: the
// environment, shared profiles, SSO, instance and container roles.
//
// It is apart from awsclients so that Lambda functions do not link it.
package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"fedpost/internal/engine/awssdk"
)

// Config returns the configuration of the SDK's default chain.
// https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
func awsConfig(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return aws.Config{}, fmt.Errorf("read AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, fmt.Errorf("no AWS region is configured: set AWS_REGION, or a region in the profile")
	}
	return awssdk.Tune(cfg), nil
}
