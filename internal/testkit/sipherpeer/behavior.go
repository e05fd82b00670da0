package sipherpeer

// Form is how an acknowledgement is given.
type Form string

// The forms. The zero value is Wrapped.
const (
	Wrapped   Form = ""          // inside another object's payload
	Inline    Form = "inline"    // the body itself
	Legacy    Form = "legacy"    // {"status":"acknowledged"}
	Null      Form = "null"      // the JSON literal
	Text      Form = "text"      // no JSON
	Empty     Form = "empty"     // 200 without a body
	NoContent Form = "nocontent" // 204
)

// Behavior is how one delivery is treated. The zero value accepts it and
// acknowledges it.
type Behavior struct {
	// Hang never answers; Reset closes the connection without an answer. Neither
	// looks at the delivery.
	Hang, Reset bool
	// Lose takes the delivery in and then closes the connection: the
	// acknowledgement is lost.
	Lose bool
	// Status other than 0 and 2xx refuses, with Code in the body.
	Status int
	Code   string
	// Body, if not empty, is answered as it is, with Status or 200.
	Body string

	Form Form
	// BadSignature signs something else, NoSignature leaves the member out.
	BadSignature, NoSignature bool
	// WrongRecipient seals the acknowledgement to somebody else.
	WrongRecipient bool
	// Accepted is what a follow's acknowledgement says of it: "true", "false",
	// "null" or "absent". Empty is "true".
	Accepted string
	// FollowerID and FollowingID replace those of the delivery.
	FollowerID, FollowingID string
	// CreatedAt replaces the date, as JSON.
	CreatedAt string
	// Garbage seals a text that is no acknowledgement.
	Garbage bool

	// ProxyStatus and ProxyBody make the peer, as a proxy, answer with that status
	// (default 200) and that body, and pass nothing on.
	ProxyStatus int
	ProxyBody   string
}

// Discovery is how the peer answers at /discover. The zero value is right.
type Discovery struct {
	// Hang never answers, Status answers that to a GET, Body that.
	Hang   bool
	Status int
	Body   string
	// RefuseRegistration answers a POST with 400.
	RefuseRegistration bool
	// CallBack confirms registrations as real servers do.
	CallBack bool
}
