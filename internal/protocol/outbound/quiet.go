package outbound

import (
	"io"
	"log"
	"sync"

	"fedpost/internal/activity/outcome"
)

// quiet keeps strangers' text out of the standard logger, to which net/http writes: it cuts and cleans
// each line.
type quiet struct{ io.Writer }

func (q quiet) Write(line []byte) (int, error) {
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
