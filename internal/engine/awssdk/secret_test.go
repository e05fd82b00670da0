package awssdk

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

type vault struct {
	text *string
	err  error
}

func (v vault) GetSecretValue(_ context.Context, in *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	if aws.ToString(in.SecretId) != "arn" {
		return nil, errors.New("another secret")
	}
	return &secretsmanager.GetSecretValueOutput{SecretString: v.text, VersionId: aws.String("7")}, v.err
}

func TestASecretIsAnObjectOfStrings(t *testing.T) {
	got, version, err := ReadSecret(t.Context(), vault{text: aws.String(`{"FEDERATION_PRIVATE_KEY":"c2VjcmV0"}`)}, "arn")
	if err != nil || got["FEDERATION_PRIVATE_KEY"] != "c2VjcmV0" || version != "7" {
		t.Errorf("got %v of version %q, %v", got, version, err)
	}
	for _, text := range []*string{nil, aws.String(""), aws.String("null"), aws.String("c2VjcmV0"), aws.String(`{"a":["c2VjcmV0"]}`)} {
		_, _, err := ReadSecret(t.Context(), vault{text: text}, "arn")
		if !errors.Is(err, ErrBadSecret) || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%q: %v", aws.ToString(text), err)
		}
	}
	denied := errors.New("access denied")
	if _, _, err := ReadSecret(t.Context(), vault{err: denied}, "arn"); !errors.Is(err, denied) || errors.Is(err, ErrBadSecret) {
		t.Errorf("got %v", err)
	}
}
