package claimcheck

// InflateAtMost is Inflate with another limit.
func InflateAtMost(b []byte, most int64) (string, error) { return inflate(b, most) }
