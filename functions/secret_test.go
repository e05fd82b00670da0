package functions

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"fedpost/internal/app/topology"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/testkit/lambda"
)

const secretARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:fedpost-sipher-AbCdEf"

// vault is a Secrets Manager with one secret.
type vault struct {
	*httptest.Server
	text  string // "": access is denied
	reads atomic.Int32
}

func newVault(t *testing.T, text string) *vault {
	t.Helper()
	v := &vault{text: text}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.reads.Add(1)
		var in struct {
			SecretID string `json:"SecretId"`
		}
		err := json.NewDecoder(r.Body).Decode(&in)
		signed := strings.Contains(r.Header.Get("Authorization"), "/secretsmanager/aws4_request")
		if err != nil || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || in.SecretID != secretARN || !signed {
			t.Errorf("not a signed request for the secret: %v %v %v", r.Header, in, err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		answer := map[string]string{"ARN": secretARN, "SecretString": v.text, "VersionId": "1"}
		if v.text == "" {
			w.WriteHeader(http.StatusBadRequest)
			answer = map[string]string{"__type": "AccessDeniedException", "message": "not authorized"}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(v.Close)
	return v
}

// identity is a secret as operators store it, without entries.
func identity(t *testing.T, without ...string) string {
	t.Helper()
	made, err := crypto.GenerateIdentity(rand.Reader, "https://social.example")
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]string{}
	for _, s := range made {
		entries[s.Name] = s.Value
	}
	maps.DeleteFunc(entries, func(name, _ string) bool {
		for _, w := range without {
			if name == w {
				return true
			}
		}
		return name == crypto.SettingOrigin
	})
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func withSecret(v *vault) map[string]string {
	return deployed("AWS_ENDPOINT_URL_SECRETS_MANAGER", v.URL, "SIPHER_SECRET_ARN", secretARN, "BETTER_AUTH_URL", "https://social.example")
}

func TestDeliverReadsItsIdentityAtStart(t *testing.T) {
	v := newVault(t, identity(t))
	fn := start(t, topology.Deliver, withSecret(v))
	for range 3 {
		if _, err := fn.Invoke(t.Context(), harmless["deliver"]); err != nil {
			t.Fatal(err)
		}
	}
	if n := v.reads.Load(); n != 1 {
		t.Errorf("%d reads of the secret in three invocations", n)
	}
	init := fn.Starts()[0].Init
	t.Logf("init with a look at the secret: %s", init)
}

func TestDeliverEndsItsStartWithoutAWholeIdentity(t *testing.T) {
	for name, tt := range map[string]struct{ secret, says string }{
		"denied":        {"", "AccessDeniedException"},
		"no object":     {"top secret", "not a JSON object of strings"},
		"empty":         {"{}", "FEDERATION_ENCRYPTION_PRIVATE_KEY is not in the secret"},
		"a key missing": {identity(t, crypto.SettingPrivateKey), "FEDERATION_PRIVATE_KEY is not in the secret"},
		"not a pair":    {strings.Replace(identity(t), crypto.SettingPublicKey+`":"`, crypto.SettingPublicKey+`":"AAAA`, 1), "FEDERATION_PUBLIC_KEY cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := start(t, topology.Deliver, withSecret(newVault(t, tt.secret))).Invoke(t.Context(), harmless["deliver"])
			if !errors.Is(err, lambda.ErrExited) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an end that says %q", err, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "top secret") {
				t.Errorf("the error quotes the secret: %v", err)
			}
		})
	}
}
