package outbound

import (
	"bytes"
	"io"
	"log"
	"sync"

	"fedpost/internal/activity/outcome"
)

// unasked begins what net/http writes to the standard logger, with up to 4 KiB
// of it, when a host sends more than its answer. There is no way to turn that off.
const unasked = "Unsolicited response received on idle HTTP channel"

// quiet is an output of the standard logger on which strangers have no say: such
// lines are dropped, and others cut and cleaned.
type quiet struct{ io.Writer }

func (q quiet) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(unasked)) {
		return len(line), nil
	}
	if _, err := io.WriteString(q.Writer, outcome.Text(string(line))+"\n"); err != nil {
		return 0, err
	}
	return len(line), nil
}

var quieting sync.Mutex

// quieten wraps the standard logger's output, once. fedpost itself logs by slog.
func quieten() {
	quieting.Lock()
	defer quieting.Unlock()
	if _, done := log.Writer().(quiet); !done {
		log.SetOutput(quiet{log.Writer()})
	}
}
