package outcome

// Reason classifies why no usable answer came.
type Reason string

// The reasons, as records and logs show them.
const (
	ReasonNone    Reason = ""
	Timeout       Reason = "timeout"
	DNS           Reason = "dns"
	ConnRefused   Reason = "refused"
	ConnReset     Reason = "reset"
	TLS           Reason = "tls"
	BlockedAddr   Reason = "blocked-address" // the address guard refused to dial
	BadRequest    Reason = "request"         // the request could not be made
	OtherTrouble  Reason = "other"
	InvalidAnswer Reason = "invalid-answer"
)
