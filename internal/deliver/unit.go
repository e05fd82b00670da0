package deliver

import (
	"cmp"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver/admission"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
)

// unit is a delivery message in work: a chunk of targets, or one target.
type unit struct {
	intake.Work
	// id never changes: the journal reads it at any time.
	id    message.Unit
	a     activity.Activity
	d     message.Delivery
	route protocol.Delivery
	known ledger.Known
	claim ledger.Claim
	jobs  []*job
	// gone says why the activity's body cannot be read; nil: it was read.
	gone error
	// keyDigest stands for the activity's signing key in the keys of states.
	keyDigest string
	// looked is when the activity's record was last read, and over whether it was cancelled
	// then. The channel looking guards both: a mutex must not be held during a read of the
	// table.
	looking chan struct{}
	looked  time.Time
	over    bool
	// ticket is the memory of the jobs that wait for a place.
	ticket *admission.Ticket
}

// job is a target of a unit that is not done.
type job struct {
	target   activity.Target
	position int
	host     string
	keys     cache.Keys
	attempts int // made so far, recorded or not
	unsent   int // tries that ended before a request was made
	tried    ledger.Tries
	last     ledger.Recipient // the record; zero: none
	verdict  verdict.Verdict
	out      outcome.Outcome
	answered time.Time // by the wall clock, as timers are; zero: no attempt was made
	// ended is when the final state was first written to the journal or recorded. A record that is
	// written again keeps it: another process may have written the event of the first, and one
	// with a later time is another event.
	ended time.Time
}

func newUnit(w intake.Work, route protocol.Delivery) *unit {
	u := &unit{Work: w, a: *w.Message.Activity, d: *w.Message.Deliver, route: route, looking: make(chan struct{}, 1)}
	u.id = u.d.Unit(u.a.ID)
	u.keyDigest = circuit.KeyDigest(u.a.KeyID)
	return u
}

// keysOf returns the keys of the states that decide about a target: of its host, of its inbox,
// and of each with this signing key.
func (u *unit) keysOf(t activity.Target) cache.Keys {
	return cache.KeysOf(t.Host(), circuit.InboxKey(t.Inbox), circuit.SignedHostKey(t.Host(), u.keyDigest), circuit.SignedInboxKey(t.Inbox, u.keyDigest))
}

func (u *unit) keys() []cache.Keys {
	ps := make([]cache.Keys, len(u.jobs))
	for i, j := range u.jobs {
		ps[i] = j.keys
	}
	return ps
}

func (u *unit) single() bool { return u.d.Position != message.Whole }

// list makes a job of each target that this message is for. Targets of a chunk that have a
// record have messages of their own. The message of a single target is stale if the record is
// of a later generation.
func (u *unit) list() {
	for i, t := range u.d.Targets {
		j := &job{target: t, position: i, host: t.Host(), keys: u.keysOf(t), attempts: u.d.Attempts, unsent: u.d.Unsent}
		if u.single() {
			j.position = u.d.Position
		}
		r, ok := u.known.Recipients[j.position]
		if ok && !u.single() {
			continue
		}
		if ok {
			revived := r.RevivedBy(u.d.Generation)
			if (r.State.Final() && !revived) || u.d.Generation < r.Generation {
				continue
			}
			j.last, j.tried = r, r.Tries
			if !revived {
				j.attempts, j.unsent = max(j.attempts, r.Attempts), max(j.unsent, r.Unsent)
			}
		}
		u.jobs = append(u.jobs, j)
	}
}

// recorded reports whether the ledger has a record of j that a client sees.
func (j *job) recorded() bool { return j.last.State != "" && j.last.State != activity.Queued }

// tries counts against the policy's maximum.
func (j *job) tries() int { return j.attempts + j.unsent }

// leaves reports whether j leaves the ordered group of its host for that of its inbox.
func (u *unit) leaves(j *job) bool {
	is, parks := j.verdict.(verdict.Park)
	return parks && is.Alone && !u.d.Alone
}

// due reports whether j is to be attempted, or was attempted and is not classified.
func (j *job) due() bool { return j.verdict == (verdict.Attempt{}) }

// due are the targets that are to be attempted.
func (u *unit) due() (due []*job) {
	for _, j := range u.jobs {
		if j.due() {
			due = append(due, j)
		}
	}
	return due
}

func (u *unit) one(j *job, generation int) message.Delivery {
	d := message.Delivery{
		Chunk: u.d.Chunk, Position: j.position, Targets: []activity.Target{j.target},
		Attempts: j.attempts, Unsent: j.unsent, Generation: generation, Since: u.d.Since, Revive: u.d.Revive, Alone: u.d.Alone,
	}
	switch is := j.verdict.(type) {
	case verdict.Park:
		d.Slot, d.Alone = is.Slot, d.Alone || is.Alone
	case verdict.Again:
		d.Slot = is.Slot
	}
	return d
}

// spotGeneration is the generation of the spot in which a delivery of this unit is parked, and
// of the message that releases it. An unordered delivery gets another spot each time, so that a
// late release of the old spot does not remove the new one. An ordered one keeps its spot until
// it is final.
func (u *unit) spotGeneration() int {
	if u.a.Ordered() {
		return max(1, u.d.Generation)
	}
	return u.d.Generation + 1
}

// since is when the delivery became due: after the caller's delay, or after its last revival.
func (u *unit) since() time.Time {
	begin := u.a.CreatedAt
	// A message of an earlier version does not have DueAt; its record does.
	for _, later := range []time.Time{u.a.DueAt, u.known.Record.DueAt, u.d.Since} {
		if later.After(begin) {
			begin = later
		}
	}
	return begin
}

// keptUntil is how long the activity's body and content are kept.
func (u *unit) keptUntil() time.Time {
	return cmp.Or(u.known.Record.Forget, u.a.CreatedAt.Add(ledger.DefaultKeep))
}

func (u *unit) recipient(j *job, now time.Time) ledger.Recipient {
	if verdict.State(j.verdict).Final() {
		j.ended = cmp.Or(j.ended, now)
		now = j.ended
	}
	r := ledger.Recipient{
		Chunk: u.d.Chunk, Position: j.position, Target: j.target, State: verdict.State(j.verdict),
		Attempts: j.attempts, Unsent: j.unsent, LastStatus: j.out.Status, LastError: j.out.Err, Response: j.out.Response,
		Note: j.out.Note, UpdatedAt: now, Generation: u.d.Generation,
	}
	switch is := j.verdict.(type) {
	case verdict.Refused:
		r.LastError = cmp.Or(is.Why, r.LastError)
	case verdict.Redundant:
		r.By = is.By
	case verdict.Superseded:
		r.By = is.By
	case verdict.Dead:
		r.Note, r.LastError = is.Why, cmp.Or(r.LastError, j.last.LastError, is.Why)
		r.LastStatus = cmp.Or(r.LastStatus, j.last.LastStatus, u.route.Policy.ExhaustedStatus)
	case verdict.Again:
		r.NextAttemptAt, r.Note = is.Until(), cmp.Or(is.Note(), r.Note)
	case verdict.Park:
		r.NextAttemptAt, r.Note = is.Due, cmp.Or(is.Note(), r.Note)
		r.Generation, r.Lot = u.spotGeneration(), ledger.LotName(j.target.Inbox, is.Under)
	}
	if r.State != activity.Delivered || j.tried.Several() {
		r.Tries = j.tried // the first attempt of a delivered recipient is not kept, which saves bytes
	}
	if j.out.Discard && r.State.Final() {
		// The protocol keeps no details. The final state is recorded all the same.
		r.LastStatus, r.LastError, r.Response, r.Note, r.Tries = 0, "", "", "", ""
		if r.State == activity.Failed {
			r.Note = discarded
		}
		return r
	}
	if r.LastError == "" && !r.State.Final() {
		r.LastStatus, r.LastError, r.Response = j.last.LastStatus, j.last.LastError, j.last.Response
	}
	return r
}

// discarded is the Note of a failure whose details the protocol does not keep.
const discarded = "removed by its protocol; the log has the error"
