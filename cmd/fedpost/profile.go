package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"fedpost/internal/engine/awssdk"
)

// awsConfig returns the configuration of the SDK's default chain, which finds
// credentials where an operator keeps them: the environment, shared profiles,
// SSO, roles of instances and containers. Lambda functions do not link it. region is used where
// the chain finds none; it may be empty.
// https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
func awsConfig(ctx context.Context, region string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithDefaultRegion(region))
	if err != nil {
		return aws.Config{}, fmt.Errorf("read AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, fmt.Errorf("no AWS region is configured: set AWS_REGION, or a region in the profile")
	}
	return awssdk.Tune(cfg), nil
}

// credentialsTime bounds the look for credentials at start.
const credentialsTime = 20 * time.Second

// hasCredentials fails if the chain finds no credentials. The SDK itself looks
// for them at the first call.
func hasCredentials(ctx context.Context, cfg aws.Config) error {
	ctx, cancel := context.WithTimeout(ctx, credentialsTime)
	defer cancel()
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return fmt.Errorf("no AWS credentials: set AWS_PROFILE (aws configure, aws sso login), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run with a role: %w", err)
	}
	return nil
}
