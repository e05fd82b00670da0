// Package kms seals private keys with a KMS key, which never leaves KMS.
//
// The encryption context binds a sealed key to its id: under another id it does not open, and CloudTrail
// shows which key was opened when.
package kms

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"fedpost/internal/keys"
)

// contextKey is the name of the signing key's id in the encryption context. Policies may demand it
// (kms:EncryptionContextKeys).
const contextKey = "fedpost:key"

// maxPlaintext is what one Encrypt takes, in bytes; an RSA key of 4096 bits in PKCS#8 has about 2,400.
// https://docs.aws.amazon.com/kms/latest/APIReference/API_Encrypt.html
const maxPlaintext = 4096

// call is an operation of *kms.Client; see package dynamodb's.
type call[In, Out any] = func(context.Context, *In, ...func(*kms.Options)) (*Out, error)

// Sealer implements keys.Sealer.
type Sealer struct {
	encrypt call[kms.EncryptInput, kms.EncryptOutput]
	decrypt call[kms.DecryptInput, kms.DecryptOutput]
	key     string
}

// New returns a sealer with a KMS key: its id, ARN or alias.
func New(encrypt call[kms.EncryptInput, kms.EncryptOutput], decrypt call[kms.DecryptInput, kms.DecryptOutput], key string) *Sealer {
	return &Sealer{encrypt, decrypt, key}
}

func (s *Sealer) Seal(ctx context.Context, keyID string, plaintext []byte) ([]byte, error) {
	if len(plaintext) > maxPlaintext {
		return nil, fmt.Errorf("seal with KMS: %d bytes, at most %d", len(plaintext), maxPlaintext)
	}
	out, err := s.encrypt(ctx, &kms.EncryptInput{
		KeyId:             aws.String(s.key),
		Plaintext:         plaintext,
		EncryptionContext: map[string]string{contextKey: keyID},
	})
	if err != nil {
		return nil, fmt.Errorf("seal with KMS: %w", err)
	}
	return out.CiphertextBlob, nil
}

// Open returns an error that wraps keys.ErrCannotOpen if the sealed key is of another id or of another KMS
// key; other errors say that KMS could not be reached.
func (s *Sealer) Open(ctx context.Context, keyID string, sealed []byte) ([]byte, error) {
	out, err := s.decrypt(ctx, &kms.DecryptInput{
		// With KeyId, KMS refuses what another key of the account has sealed.
		KeyId:             aws.String(s.key),
		CiphertextBlob:    sealed,
		EncryptionContext: map[string]string{contextKey: keyID},
	})
	var invalid *types.InvalidCiphertextException
	var otherKey *types.IncorrectKeyException
	if errors.As(err, &invalid) || errors.As(err, &otherKey) {
		return nil, fmt.Errorf("open with KMS: %w: %w", keys.ErrCannotOpen, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open with KMS: %w", err)
	}
	return out.Plaintext, nil
}
