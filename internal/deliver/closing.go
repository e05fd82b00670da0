package deliver

import (
	"context"
	"time"

	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
)

// lasting is ctx without the end of its invocation, which kept outcomes outlast in a process
// that lives on.
func (e *Engine) lasting(ctx context.Context) context.Context {
	if e.Limits.Quiet > 0 {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// closing is ctx for what ends an invocation. On Lambda it leaves time for the answer: without
// one, all messages come back.
func (e *Engine) closing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = e.lasting(ctx)
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, end.Add(-answerReserve))
	}
	return context.WithTimeout(ctx, 2*keptTry)
}

// handBack hands a message back to its queue. Where queue and table are away together, a process
// that lives on tries again when the table is back: the message would stay hidden for its whole
// visibility timeout. It is tried for about as long as that lasts, but not when the process is
// about to end.
func (e *Engine) handBack(ctx context.Context, from queue.Name, m queue.Received, d intake.Disposition) {
	until := time.Now().Add(keptFor)
	for tries := 0; ; tries++ {
		once, cancel := e.closing(ctx)
		done := e.intake.HandBack(once, from, m, d)
		cancel()
		if done || e.Limits.Quiet == 0 || e.kept.writable == nil || !e.kept.pausedUntil(until, tries) {
			return
		}
	}
}
