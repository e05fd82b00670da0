package circuit

import "time"

// Revivable reports whether a delivery that dies now dies because the host is down: the host
// takes none, or is back and its dead deliveries are being revived.
func (s State) Revivable(now time.Time) bool {
	return s.Decision(now) == Wait || s.Settled(now).Phase == Recovering && s.Reviving(now)
}

// Reviving reports whether dead deliveries are parked again once the host is back and its lot
// is empty.
func (s State) Reviving(now time.Time) bool { return s.ReviveUntil.After(now) }

// Died says that a delivery to the host is about to die, and is revived if the host comes back
// before until. It is saved before the dead letter is written. It changes the state once a day
// at most.
func (s State) Died(r Rules, until, now time.Time) State {
	if s.ReviveUntil.Before(until) {
		// A day is added, so that the next deliveries need no write.
		s.ReviveUntil = until.Add(day)
		s = s.kept(r, now)
	}
	return s.Park(r, now)
}

// DeathRecorded says that the dead letter is written. If the host accepts deliveries now, the
// last look may have missed it, so a release is made due.
func (s State) DeathRecorded(r Rules, until, now time.Time) State {
	return s.Died(r, until, now).Missed(r, now)
}

// LeftDead says that dead deliveries stay dead, because nothing is sent to the host any more.
func (s State) LeftDead(r Rules, now time.Time) State {
	s.ReviveUntil = time.Time{}
	return s.kept(r, now)
}
