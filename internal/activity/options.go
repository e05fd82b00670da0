package activity

// MaxMetadata is the longest metadata in bytes, without white space: each message, parked
// delivery, dead letter and event of the activity has a copy.
const MaxMetadata = 1 << 10

// Options are what a caller asks for that a delivery heeds: part of the request and of the
// activity, so that a field is declared once. Their names are those of the API and of
// messages, and are only ever added to.
type Options struct {
	// KeyID names the signing key (ActivityPub): an id in the key store and the
	// keyId parameter of the signature.
	KeyID string `json:"keyId,omitempty"`

	// Job and ServerURL are the Sipher job name and the origin of the server
	// that the target URL belongs to.
	Job       string `json:"job,omitempty"`
	ServerURL string `json:"serverUrl,omitempty"`

	// Priority of a request that names none is chosen by its activity's type.
	Priority    Priority `json:"priority,omitempty"`
	OrderingKey string   `json:"orderingKey,omitempty"`

	// Coalesce is empty for none.
	Coalesce       Coalesce `json:"coalesce,omitempty"`
	CoalesceCreate bool     `json:"coalesceCreate,omitempty"`

	// Notify asks for the event activity.done when every recipient has come to its end.
	Notify bool `json:"notify,omitempty"`

	// Metadata is a JSON object of the caller's, of up to MaxMetadata bytes, that is given back
	// wherever the activity is shown or told of. Nothing is read in it. Empty for none.
	Metadata string `json:"metadata,omitempty"`
}
