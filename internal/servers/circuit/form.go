package circuit

import "time"

// A server is believed to take another signature form only after it has refused
// the usual one and accepted the other on two deliveries, at least formApart and
// at most formTogether from each other. One passing 403 shows nothing, and a
// wrong belief is dear: some servers answer 200 to RFC 9421 and drop the activity.
const (
	formApart    = time.Minute
	formTogether = 24 * time.Hour
)

// TookForm notes at now that the server has accepted a delivery in a signature
// form, after it had refused the one that it was expected to take. On the second
// such delivery the form is kept until a time.
func (s State) TookForm(r Rules, form string, until, now time.Time) State {
	since := now.Sub(s.MaybeFormAt)
	switch {
	case form != s.MaybeForm || since > formTogether:
		s.MaybeForm, s.MaybeFormAt = form, now
	case since < formApart:
		return s
	default:
		s.Form, s.FormUntil = form, until
		s.MaybeForm, s.MaybeFormAt = "", time.Time{}
	}
	return s.kept(r, now)
}

// FormAt returns the signature form that the server is known to take at now, or
// "".
func (s State) FormAt(now time.Time) string {
	if !now.Before(s.FormUntil) {
		return ""
	}
	return s.Form
}
