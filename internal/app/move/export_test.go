package move

import (
	"io"

	"filippo.io/age"
)

// raw begins a file in which a test writes what it likes.
func raw(to io.Writer) (*writer, error) {
	r, err := age.NewScryptRecipient(secret)
	if err != nil {
		return nil, err
	}
	r.SetWorkFactor(cheap)
	w, err := age.Encrypt(to, r)
	return &writer{to: w}, err
}
