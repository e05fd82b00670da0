package circuit

import "time"

// fedpost switches to another signature form only after the server has refused the usual form
// and accepted the other on two deliveries, at least formApart and at most formTogether apart.
// One 403 may be a passing fault, and some servers answer 200 to RFC 9421 and drop the
// activity.
const (
	formApart    = time.Minute
	formTogether = 24 * time.Hour
)

// TookForm records that the server accepted a delivery in form after refusing the expected one.
// From the second time on, form is used until the time given.
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

// OneRequest reports whether a trial is one request, with one signature form: the server has just
// refused all forms, which spent the budget.
func (s State) OneRequest(r Rules, now time.Time) bool {
	return s.Phase == HalfOpen && s.spentToday(r, now)
}

// FormAt returns the signature form that the server takes, or "".
func (s State) FormAt(now time.Time) string {
	if !now.Before(s.FormUntil) {
		return ""
	}
	return s.Form
}
