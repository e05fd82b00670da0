package activity

// MaxMetadata is the longest metadata in bytes, without white space: each message, parked delivery, dead
// letter and event has a copy.
const MaxMetadata = 1 << 10

// Options are the fields of a request that delivery needs, too, so they are declared once. Their names are
// those of the API and of messages, and are only ever added to.
type Options struct {
	// KeyID is the id of the signing key in the key store, and keyId of the signature (ActivityPub).
	KeyID string `json:"keyId,omitempty"`

	// Job and ServerURL are the Sipher job name and the origin of the target URL's server.
	Job       string `json:"job,omitempty"`
	ServerURL string `json:"serverUrl,omitempty"`

	// Priority: if a request names none, the activity's type decides.
	Priority    Priority `json:"priority,omitempty"`
	OrderingKey string   `json:"orderingKey,omitempty"`

	// Coalesce is empty for none.
	Coalesce       Coalesce `json:"coalesce,omitempty"`
	CoalesceCreate bool     `json:"coalesceCreate,omitempty"`

	// Notify asks for the event activity.done when all recipients are finished.
	Notify bool `json:"notify,omitempty"`

	// Metadata is a JSON object of the caller's that is returned wherever the activity is shown; empty for
	// none.
	Metadata string `json:"metadata,omitempty"`
}
