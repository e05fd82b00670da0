package move

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"filippo.io/age"

	"fedpost/internal/keys"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/webhook"
)

// formatVersion is that of the file's content. A reader refuses any other.
const formatVersion = 1

// most bytes of a line. The longest is a key of RSA 4096 with the longest id.
const longestLine = 64 << 10

// line is a line of the file: JSON lines, encrypted by age. Exactly one field is set. The first line
// is Begin, the last End.
type line struct {
	Begin   *begin         `json:"fedpostExport,omitempty"`
	Key     *keys.Moved    `json:"key,omitempty"`
	Server  *server        `json:"server,omitempty"`
	Webhook *webhook.Moved `json:"webhook,omitempty"`
	Peer    *peer          `json:"sipherServer,omitempty"`
	Block   *sipherBlock   `json:"sipherBlock,omitempty"`
	Follow  *follow.Follow `json:"follow,omitempty"`
	End     *end           `json:"end,omitempty"`
}

type begin struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
}

// end says how many lines are between the first and the last.
type end struct {
	Lines int `json:"lines"`
}

// thing returns what the line has; nil for the first and the last.
func (l line) thing() thing {
	switch {
	case l.Key != nil:
		return key{*l.Key}
	case l.Server != nil:
		return *l.Server
	case l.Webhook != nil:
		return hook{*l.Webhook}
	case l.Peer != nil:
		return *l.Peer
	case l.Block != nil:
		return *l.Block
	case l.Follow != nil:
		return followed{*l.Follow}
	}
	return nil
}

type writer struct {
	to    io.WriteCloser
	lines int
}

// newWriter begins a file; for work see Export.
func newWriter(to io.Writer, passphrase string, work int, now time.Time) (*writer, error) {
	r, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, err
	}
	if work > 0 {
		r.SetWorkFactor(work)
	}
	w, err := age.Encrypt(to, r)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	f := &writer{to: w}
	return f, f.write(line{Begin: &begin{formatVersion, now.UTC()}})
}

func (f *writer) put(l line) error {
	f.lines++
	return f.write(l)
}

func (f *writer) write(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if len(text) >= longestLine {
		return fmt.Errorf("a record has %d bytes, at most %d can be exported", len(text), longestLine)
	}
	_, err = f.to.Write(append(text, '\n'))
	return err
}

func (f *writer) close() error {
	return errors.Join(f.write(line{End: &end{f.lines}}), f.to.Close())
}

// File is a decrypted export, which can be read several times.
type File struct {
	plain io.ReaderAt
	size  int64
	read  *atomic.Int64 // how far each has come
}

// intro begins every file that age has encrypted.
// https://age-encryption.org/v1
const intro = "age-encryption.org/v"

// Open reads and checks an export. Its error wraps ErrPassphrase or ErrNotExport.
func Open(from io.ReaderAt, size int64, passphrase string) (File, error) {
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return File{}, err
	}
	if err := begins(from, size); err != nil {
		return File{}, err
	}
	plain, n, err := age.DecryptReaderAt(from, size, identity)
	switch {
	case errors.Is(err, age.ErrIncorrectIdentity):
		return File{}, ErrPassphrase
	case err != nil:
		return File{}, damaged(err)
	}
	f := File{plain, n, new(atomic.Int64)}
	return f, f.each(thing.check)
}

// begins returns an error if a file does not begin as every export does.
func begins(from io.ReaderAt, size int64) error {
	start := make([]byte, min(size, int64(len(intro))))
	switch n, err := from.ReadAt(start, 0); {
	case n < len(start):
		return fmt.Errorf("%w: %w", ErrNotExport, err)
	case size == 0:
		return fmt.Errorf("%w: it is empty; export once more", ErrNotExport)
	case string(start) != intro[:n]:
		return fmt.Errorf("%w: it is another kind of file; fedpost restore takes backups", ErrNotExport)
	}
	return nil
}

// damaged is the error of a file that age cannot read to its end.
func damaged(err error) error {
	return fmt.Errorf("%w: it was cut off or changed after it was written; copy it once more from where it was exported, or export again (%w)", ErrNotExport, err)
}

// part is how far each has come.
func (f File) part() (done, all int64) { return f.read.Load(), f.size }

func (f File) each(do func(thing) error) error {
	lines := bufio.NewScanner(io.NewSectionReader(f.plain, 0, f.size))
	lines.Buffer(nil, longestLine)
	n, ended := 0, false
	f.read.Store(0)
	for ; lines.Scan(); n++ {
		f.read.Add(int64(len(lines.Bytes())) + 1)
		if n == 0 {
			if err := readable(lines.Bytes()); err != nil {
				return err
			}
		}
		l, err := parse(lines.Bytes())
		switch {
		case err != nil:
			return fmt.Errorf("%w: line %d: %w", ErrNotExport, n+1, err)
		case ended:
			return fmt.Errorf("%w: line %d comes after the end", ErrNotExport, n+1)
		case (n == 0) != (l.Begin != nil):
			return fmt.Errorf("%w: line %d is not where it belongs", ErrNotExport, n+1)
		case l.End != nil && l.End.Lines != n-1:
			return fmt.Errorf("%w: %d of %d records are there", ErrNotExport, n-1, l.End.Lines)
		}
		ended = l.End != nil
		if t := l.thing(); t != nil {
			if err := do(t); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return damaged(fmt.Errorf("line %d: %w", n+1, err))
	}
	if !ended {
		return fmt.Errorf("%w: it has no end", ErrNotExport)
	}
	return nil
}

var errLine = errors.New("it is no record that this fedpost knows; if a newer fedpost wrote it, import it with that one")

// readable returns an error if the first line has another version of the format.
func readable(first []byte) error {
	var l struct {
		Begin struct {
			Version int `json:"version"`
		} `json:"fedpostExport"`
	}
	if json.Unmarshal(first, &l) != nil || l.Begin.Version == 0 || l.Begin.Version == formatVersion {
		return nil // the line is parsed next
	}
	return fmt.Errorf("%w: it has version %d of the format, and this fedpost reads version %d; import it with the version of fedpost that wrote it, or export again with this one", ErrNotExport, l.Begin.Version, formatVersion)
}

// parse reads a line. Its errors quote nothing of it.
func parse(text []byte) (l line, err error) {
	var fields map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if json.Unmarshal(text, &fields) != nil || len(fields) != 1 || d.Decode(&l) != nil {
		return line{}, errLine
	}
	if l.Begin == nil && l.End == nil && l.thing() == nil {
		return line{}, errLine // a null
	}
	return l, nil
}
