package httpsign

import (
	"fmt"
	"net/http"
	"strings"
)

// cavageHeaders are what Mastodon signs in a POST, in its order, because what
// Mastodon sends is what every other server was tested with. Misskey and
// PeerTube insist on the first four; Mastodon on date and digest.
var cavageHeaders = []string{"(request-target)", "host", "date", "digest", "content-type"}

// signCavage signs as draft-cavage-http-signatures-12 has it.
//
// The algorithm is named rsa-sha256, which the draft deprecates in favour of
// hs2019, because old receivers know only that name and none refuses it. An
// Ed25519 key has no other name than hs2019.
//
// target is what stands for the request target.
func (s *Signer) signCavage(r *http.Request, d Digest, target string) error {
	r.Header.Set("Digest", d.Header())
	base, err := cavageBase(r, target, cavageHeaders)
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
		s.keyID, algorithm, strings.Join(cavageHeaders, " "), sig))
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

// joined combines the values of a header as both forms want it: trimmed, and
// separated by a comma and a space.
func joined(values []string) string {
	trimmed := make([]string, len(values))
	for i, v := range values {
		trimmed[i] = strings.TrimSpace(v)
	}
	return strings.Join(trimmed, ", ")
}
