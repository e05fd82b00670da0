package circuit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fedpost switches to another signature form only after an inbox has refused the expected form and
// accepted the other on two deliveries, at least formApart and at most formTogether apart. One 403
// may be a passing fault, and some servers answer 200 to RFC 9421 and drop the activity.
const (
	formApart    = time.Minute
	formTogether = 24 * time.Hour
	// mostForms is how many inboxes of a host are remembered with forms of their own, because
	// strangers name inboxes. While there are so many, no other is added, so that a stranger drives
	// nobody out: the others are asked in both forms, which costs them a second request each time.
	mostForms = 32
)

// FormTaken says that Inbox refused the signature form Refused and then accepted Form.
type FormTaken struct {
	Inbox, Refused, Form string
	// Shared says that it is called the shared inbox of its host, and no other inbox there was seen
	// to accept Refused. Only such a one, and one that had accepted Refused before, speak for
	// the host: any other may be a stranger's own program.
	Shared, AcceptedRefused bool
	// Until is the time until which Form is used, if it is learnt.
	Until time.Time
}

// TookForm learns from t: for the inbox, and for the host if the inbox speaks for it. A form that was
// learnt and is now refused is unlearnt at once, so that nobody else is asked in it first. If it was
// the host's, only the inbox that refused it may teach the host another before FormUntil, and each
// learns for itself: one that taught the host again and again would cost the others a request each
// time, and a stranger may call his inbox a shared one.
func (s State) TookForm(r Rules, t FormTaken, now time.Time) State {
	after := s
	disputed := s.Form == "" && now.Before(s.FormUntil)
	speaks := !disputed || s.MaybeForm == t.Form
	t.Shared = t.Shared && speaks
	after.Forms = s.Forms.took(t, now)
	if s.FormAt(now) == t.Refused {
		after.Form = ""
	}
	if speaks {
		after = after.hostTook(t, now)
	}
	if after == s {
		return s
	}
	return after.kept(r, now)
}

func (s State) hostTook(t FormTaken, now time.Time) State {
	by := ""
	if !t.Shared {
		by = inboxDigest(t.Inbox)
	}
	since := now.Sub(s.MaybeFormAt)
	pending := s.MaybeForm != "" && since <= formTogether
	switch {
	case s.FormAt(now) == t.Form, pending && since < formApart:
	case pending && s.MaybeForm == t.Form && (t.Shared || by == s.MaybeFormBy):
		s.Form, s.FormUntil = t.Form, t.Until
		s.MaybeForm, s.MaybeFormBy, s.MaybeFormAt = "", "", time.Time{}
	case t.Shared, t.AcceptedRefused && !pending:
		s.MaybeForm, s.MaybeFormBy, s.MaybeFormAt = t.Form, by, now
	}
	return s
}

// FormAt returns the signature form that the host takes, or "".
func (s State) FormAt(now time.Time) string {
	if !now.Before(s.FormUntil) {
		return ""
	}
	return s.Form
}

// FormOf returns the signature form that an inbox of the host takes, or "". What was learnt from the
// inbox itself goes before what was learnt for the host.
func (s State) FormOf(inbox string, now time.Time) string {
	return cmp.Or(s.Forms.of(inbox, now), s.FormAt(now))
}

// OneRequest reports whether a trial is one request, with one signature form: the server has just
// refused all forms, which spent the budget.
func (s State) OneRequest(r Rules, now time.Time) bool {
	return s.Phase == HalfOpen && s.spentToday(r, now)
}

// Forms are the signature forms of up to mostForms inboxes. It is a text because states are compared
// by ==: "<digest of the inbox>:<form>:<sure>:<end in Unix milliseconds>", separated by spaces.
type Forms string

// inboxForm is used until end if it is sure. Otherwise the inbox has accepted it once, formTogether
// before end.
type inboxForm struct {
	inbox, form string
	sure        bool
	end         time.Time
}

func (f Forms) list(now time.Time) (all []inboxForm) {
	for text := range strings.FieldsSeq(string(f)) {
		parts := strings.Split(text, ":")
		if len(parts) != 4 {
			continue
		}
		if ms, _ := strconv.ParseInt(parts[3], 10, 64); ms > now.UnixMilli() {
			all = append(all, inboxForm{parts[0], parts[1], parts[2] == "true", time.UnixMilli(ms)})
		}
	}
	return all
}

func (f Forms) of(inbox string, now time.Time) string {
	if f == "" {
		return ""
	}
	digest := inboxDigest(inbox)
	for _, k := range f.list(now) {
		if k.inbox == digest && k.sure {
			return k.form
		}
	}
	return ""
}

func (f Forms) took(t FormTaken, now time.Time) Forms {
	once, all := inboxForm{inboxDigest(t.Inbox), t.Form, false, now.Add(formTogether)}, f.list(now)
	i := slices.IndexFunc(all, func(k inboxForm) bool { return k.inbox == once.inbox })
	switch {
	case i < 0 && (t.Shared || len(all) >= mostForms):
		return f
	case i < 0:
		all = append(all, once)
	case all[i].sure && all[i].form == t.Form, !all[i].sure && now.Sub(all[i].end.Add(-formTogether)) < formApart:
		return f
	case !all[i].sure && all[i].form == t.Form:
		all[i].sure, all[i].end = true, t.Until
	default:
		all[i] = once
	}
	return formsOf(all)
}

func formsOf(all []inboxForm) Forms {
	texts := make([]string, len(all))
	for i, k := range all {
		texts[i] = fmt.Sprintf("%s:%s:%t:%d", k.inbox, k.form, k.sure, k.end.UnixMilli())
	}
	return Forms(strings.Join(texts, " "))
}

// lasts returns when the last of the forms ends.
func (f Forms) lasts() (end time.Time) {
	for _, k := range f.list(time.Time{}) {
		end = latest(end, k.end)
	}
	return end
}
