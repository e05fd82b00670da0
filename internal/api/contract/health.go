package contract

// Health is the answer to GET /healthz of a process that can write.
type Health struct {
	Status string `json:"status"` // ok
}
