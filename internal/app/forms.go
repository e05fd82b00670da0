package app

import (
	"time"

	"fedpost/internal/deliver"
	"fedpost/internal/protocol/httpsign"
)

// forms is the memory of signature forms that all processes share: the engine's
// states of hosts, which it has at hand before every attempt. The engine is set
// after the protocol, which needs the memory, was given to it.
type forms struct{ engine *deliver.Engine }

// Form implements activitypub.FormMemory.
func (f *forms) Form(host string) httpsign.Form { return httpsign.Form(f.engine.Form(host)) }

// Remember implements activitypub.FormMemory.
func (f *forms) Remember(host string, form httpsign.Form, until time.Time) {
	f.engine.RememberForm(host, string(form), until)
}
