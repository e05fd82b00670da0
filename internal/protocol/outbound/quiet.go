package outbound

import (
	"bytes"
	"io"
	"log"
	"sync"

	"fedpost/internal/activity/outcome"
)

// unasked is the beginning of the line that net/http writes to the standard logger when a
// host sends more than its answer. The line quotes up to 4 KiB from the host, and net/http
// has no setting against it.
const unasked = "Unsolicited response received on idle HTTP channel"

// quiet keeps strangers' text out of the standard logger: it drops lines that begin with
// unasked, and cuts and cleans all others.
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
