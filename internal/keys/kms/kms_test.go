package kms

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"fedpost/internal/keys"
)

// fake is KMS as far as its documentation promises: what is sealed opens with
// the same key and the same encryption context only.
type fake struct {
	sealed map[string]sealed
	err    error
}

type sealed struct {
	key     string
	context map[string]string
	plain   []byte
}

func (f *fake) Encrypt(_ context.Context, in *kms.EncryptInput, _ ...func(*kms.Options)) (*kms.EncryptOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	name := strings.Repeat("x", len(f.sealed)+1)
	f.sealed[name] = sealed{aws.ToString(in.KeyId), maps.Clone(in.EncryptionContext), bytes.Clone(in.Plaintext)}
	return &kms.EncryptOutput{CiphertextBlob: []byte(name)}, nil
}

func (f *fake) Decrypt(_ context.Context, in *kms.DecryptInput, _ ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	s, ok := f.sealed[string(in.CiphertextBlob)]
	switch {
	case !ok || !maps.Equal(s.context, in.EncryptionContext):
		return nil, &types.InvalidCiphertextException{}
	case s.key != aws.ToString(in.KeyId):
		return nil, &types.IncorrectKeyException{}
	}
	return &kms.DecryptOutput{Plaintext: s.plain}, nil
}

const id = "https://social.example/users/frida#main-key"

func TestWhatIsSealedOpensForItsKeyIDOnly(t *testing.T) {
	f := &fake{sealed: map[string]sealed{}}
	s := New(f.Encrypt, f.Decrypt, "alias/fedpost")
	box, err := s.Seal(t.Context(), id, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Open(t.Context(), id, box); err != nil || string(got) != "secret" {
		t.Errorf("opened %q, %v", got, err)
	}
	if _, err := s.Open(t.Context(), id+"2", box); !errors.Is(err, keys.ErrCannotOpen) {
		t.Errorf("another key id: %v", err)
	}
	if _, err := New(f.Encrypt, f.Decrypt, "alias/other").Open(t.Context(), id, box); !errors.Is(err, keys.ErrCannotOpen) {
		t.Errorf("another KMS key: %v", err)
	}
}

func TestAnOutageIsNotAWrongKey(t *testing.T) {
	outage := errors.New("connection refused")
	f := &fake{err: outage}
	s := New(f.Encrypt, f.Decrypt, "k")
	if _, err := s.Open(t.Context(), id, []byte("x")); !errors.Is(err, outage) || errors.Is(err, keys.ErrCannotOpen) {
		t.Errorf("open: %v", err)
	}
	if _, err := s.Seal(t.Context(), id, []byte("x")); !errors.Is(err, outage) {
		t.Errorf("seal: %v", err)
	}
}

func TestTooMuchForOneRequestIsRefused(t *testing.T) {
	f := &fake{sealed: map[string]sealed{}}
	if _, err := New(f.Encrypt, f.Decrypt, "k").Seal(t.Context(), id, make([]byte, maxPlaintext+1)); err == nil || len(f.sealed) > 0 {
		t.Errorf("error %v, %d sealed", err, len(f.sealed))
	}
}
