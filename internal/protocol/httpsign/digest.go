package httpsign

import (
	"crypto/sha256"
	"encoding/base64"
)

// Digest is the SHA-256 of a body in base64. It is the same for every recipient
// of an activity, so it is made once and handed to every Sign.
type Digest string

// DigestOf returns the digest of the exact bytes that will be sent.
func DigestOf(body string) Digest {
	sum := sha256.Sum256([]byte(body))
	return Digest(base64.StdEncoding.EncodeToString(sum[:]))
}

// Header is the value of Digest (RFC 3230), which the draft's receivers check.
func (d Digest) Header() string { return "SHA-256=" + string(d) }

// ContentHeader is the value of Content-Digest (RFC 9530, section 2).
func (d Digest) ContentHeader() string { return "sha-256=:" + string(d) + ":" }
