package circuit

import "time"

// TakesForm notes which signature form the server takes, until a time.
func (s State) TakesForm(r Rules, form string, until, now time.Time) State {
	s.Form, s.FormUntil = form, until
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
