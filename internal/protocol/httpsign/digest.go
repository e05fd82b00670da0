package httpsign

import (
	"crypto/sha256"
	"encoding/base64"
)

// Digest is the SHA-256 of a body in base64. It is computed once for all recipients of an activity.
type Digest string

// DigestOf returns the digest of the exact bytes that will be sent.
func DigestOf(body string) Digest {
	sum := sha256.Sum256([]byte(body))
	return Digest(base64.StdEncoding.EncodeToString(sum[:]))
}

// Header is the value of the header Digest (RFC 3230), which the draft signs.
func (d Digest) Header() string { return "SHA-256=" + string(d) }

// ContentHeader is the value of Content-Digest (RFC 9530, section 2), which RFC 9421 signs.
func (d Digest) ContentHeader() string { return "sha-256=:" + string(d) + ":" }
