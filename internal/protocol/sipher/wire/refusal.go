package wire

import "net/http"

// The codes with which a receiver says that it has the post or follow already.
const (
	followExists = "FOLLOW_ALREADY_EXISTS"
	postExists   = "FEDERATED_POST_ALREADY_EXISTS"
)

// AlreadyThere reports whether an answer says that the receiver has what was sent. After an earlier
// try, the acknowledgement of that try was lost.
func AlreadyThere(status int, body []byte) bool {
	if status != http.StatusConflict {
		return false
	}
	m, err := object(body)
	if err != nil {
		return false
	}
	code, _ := text(m, "code")
	return code == followExists || code == postExists
}
