package awssdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// ErrBadSecret says that a secret was read and does not have the required form.
var ErrBadSecret = errors.New("the secret cannot be used")

func Secrets(cfg aws.Config, env Getenv) (*secretsmanager.Client, error) {
	err := setEndpoint(&cfg, env, "SECRETS_MANAGER")
	return secretsmanager.NewFromConfig(cfg), err
}

type SecretReader interface {
	GetSecretValue(context.Context, *secretsmanager.GetSecretValueInput, ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error)
}

// ReadSecret returns the entries of a secret, which must be a JSON object of
// strings, and the secret's version. Errors never quote the secret. An error
// wraps ErrBadSecret if the secret is not such an object.
//
// https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html
func ReadSecret(ctx context.Context, from SecretReader, arn string) (entries map[string]string, version string, err error) {
	out, err := from.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &arn})
	if err != nil {
		return nil, "", fmt.Errorf("read secret %s: %w", arn, err)
	}
	// The decoder's error is dropped, because it would quote the secret.
	if json.Unmarshal([]byte(aws.ToString(out.SecretString)), &entries) != nil || entries == nil {
		return nil, "", fmt.Errorf("%w: %s is not a JSON object of strings: store one with the FEDERATION_ settings that fedpost keys sipher prints", ErrBadSecret, arn)
	}
	return entries, aws.ToString(out.VersionId), nil
}
