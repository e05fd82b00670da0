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
)

// formatVersion is that of the file's content. A reader refuses any other.
const formatVersion = 1

// longestLine is the most bytes of a line. The longest is a key of RSA 4096 with the longest id.
const longestLine = 64 << 10

// line is a line of the file: JSON lines, encrypted by age, each an object with one field. The first
// line is begin, the last end.
type line struct {
	begin *begin
	thing thing
	end   *end
}

const beginField, endField = "fedpostExport", "end"

type begin struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
}

// end says how many lines are between the first and the last.
type end struct {
	Lines int `json:"lines"`
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
	return f, f.write(beginField, begin{formatVersion, now.UTC()})
}

func (f *writer) put(field string, t thing) error {
	f.lines++
	return f.write(field, t)
}

func (f *writer) write(field string, value any) error {
	text, err := json.Marshal(map[string]any{field: value})
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
	return errors.Join(f.write(endField, end{f.lines}), f.to.Close())
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
		case (n == 0) != (l.begin != nil):
			return fmt.Errorf("%w: line %d is not where it belongs", ErrNotExport, n+1)
		case l.end != nil && l.end.Lines != n-1:
			return fmt.Errorf("%w: %d of %d records are there", ErrNotExport, n-1, l.end.Lines)
		}
		ended = l.end != nil
		if l.thing != nil {
			if err := do(l.thing); err != nil {
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
	if json.Unmarshal(text, &fields) != nil || len(fields) != 1 {
		return line{}, errLine
	}
	for field, value := range fields {
		switch field {
		case beginField:
			l.begin, err = strictly[begin](value)
			return l, err
		case endField:
			l.end, err = strictly[end](value)
			return l, err
		}
		for _, k := range kinds {
			if k.field == field {
				l.thing, err = k.read(value)
				return l, err
			}
		}
	}
	return line{}, errLine
}

// read reads a thing as the file has it.
func read[T thing](text []byte) (thing, error) {
	t, err := strictly[T](text)
	if err != nil {
		return nil, err
	}
	return *t, nil
}

// strictly reads an object without other fields than those of T.
func strictly[T any](text []byte) (t *T, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&t) != nil || t == nil { // a null
		return nil, errLine
	}
	return t, nil
}
