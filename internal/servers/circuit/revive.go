package circuit

import "time"

// Revivable reports whether a delivery to the host that dies now dies because the host is
// down: the host takes no deliveries, or is back and its earlier dead are being revived.
func (s State) Revivable(now time.Time) bool {
	return s.Decision(now) == Wait || s.Settled(now).Phase == Recovering && s.Reviving(now)
}

// Reviving reports whether deliveries that died are parked again once the host is back and
// its lot is empty.
func (s State) Reviving(now time.Time) bool { return s.ReviveUntil.After(now) }

// Died says that a delivery to the host is about to die, and is to be parked again if the
// host comes back before until. Died is saved before the dead letter is written. It
// changes the state once a day at most, however many deliveries die.
func (s State) Died(r Rules, until, now time.Time) State {
	if s.ReviveUntil.Before(until) {
		// Some time is added, so that the next deliveries need no write.
		s.ReviveUntil = until.Add(day)
		s = s.kept(r, now)
	}
	return s.Park(r, now)
}

// DeathRecorded says that the dead letter is written. If the host accepts deliveries by now, the
// last look for dead letters may have missed this one, so a release is made due: what
// Missed is for a spot, DeathRecorded is for a dead letter.
func (s State) DeathRecorded(r Rules, until, now time.Time) State {
	return s.Died(r, until, now).Missed(r, now)
}

// LeftDead says that what died stays dead, because nothing is sent to the host any more.
func (s State) LeftDead(r Rules, now time.Time) State {
	s.ReviveUntil = time.Time{}
	return s.kept(r, now)
}
