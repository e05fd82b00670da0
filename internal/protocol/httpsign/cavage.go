package httpsign

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// cavageHeaders are the headers that Mastodon signs in a POST, in its order: every other server was
// tested with them.
var cavageHeaders = []string{"(request-target)", "host", "date", "digest", "content-type"}

// signCavage signs r as draft-cavage-http-signatures-12 says. target is signed as the request target;
// extra are further headers to sign. For RSA the algorithm is named rsa-sha256, not hs2019: old
// receivers know only that name, and none refuses it. For Ed25519 there is only hs2019.
func (s *Signer) signCavage(r *http.Request, d Digest, target string, extra []string) error {
	r.Header.Set("Digest", d.Header())
	headers := slices.Concat(cavageHeaders, extra)
	base, err := cavageBase(r, target, headers)
	if err != nil {
		return err
	}
	sig, err := s.sign(base)
	if err != nil {
		return err
	}
	algorithm := "hs2019"
	if s.rsa {
		algorithm = "rsa-sha256"
	}
	r.Header.Set("Signature", fmt.Sprintf(`keyId="%s",algorithm="%s",headers="%s",signature="%s"`,
		s.keyID, algorithm, strings.Join(headers, " "), sig))
	return nil
}

// cavageBase is the signing string of section 2.3 of the draft.
func cavageBase(r *http.Request, target string, headers []string) (string, error) {
	lines := make([]string, len(headers))
	for i, name := range headers {
		var value string
		switch name {
		case "(request-target)":
			value = strings.ToLower(r.Method) + " " + target
		case "host":
			value = host(r)
		default:
			values := r.Header.Values(name)
			if len(values) == 0 {
				return "", fmt.Errorf("sign request: header %q is to be signed but not set", name)
			}
			value = joined(values)
		}
		lines[i] = name + ": " + value
	}
	return strings.Join(lines, "\n"), nil
}

// joined combines the values of a header as both forms require: trimmed, separated by comma and space.
func joined(values []string) string {
	trimmed := make([]string, len(values))
	for i, v := range values {
		trimmed[i] = strings.TrimSpace(v)
	}
	return strings.Join(trimmed, ", ")
}
