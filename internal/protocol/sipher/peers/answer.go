package peers

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

func retryLater(w http.ResponseWriter, status int, wait time.Duration, detail string) {
	seconds := int((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	problem(w, status, detail)
}

// problem answers with an RFC 9457 document that also has the protocol's own member "error".
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail, "error": detail,
	})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, v)
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	// The status is out: a failed write means that the caller has gone.
	_ = enc.Encode(v)
}
