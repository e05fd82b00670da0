package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"

	"fedpost/internal/engine/table"
)

// packing is how one kind of record is packed: JSON, deflated with a preset dictionary of what
// such records have in common. Without it a record of a few hundred bytes would hardly shrink.
//
// A dictionary is part of the format: packed data begins with its version, and
// changing a dictionary means adding a version.
type packing struct {
	version byte
	dict    []byte
	level   int // of flate
	writers sync.Pool
	readers sync.Pool
}

func newPacking(version byte, level int, dict string) *packing {
	return &packing{version: version, level: level, dict: []byte(dict)}
}

// Levels of flate. A single delivery packs four small records, and each reads the dictionary
// first: 7 µs a record at level quick, 60 µs at level best.
const (
	quick = 1
	best  = flate.BestCompression
)

// tiny is the length below which a record is not deflated: level quick does not use its
// dictionary there, and would make most such records longer.
const tiny = 128 // bytes

var (
	errPacked = errors.New("packed with a dictionary that this version does not know")
	// errDamaged is wrapped by the errors of unpack.
	errDamaged = errors.New("a record cannot be read")
)

func (p *packing) pack(v any) ([]byte, error) {
	text, err := plain(v)
	if err != nil {
		return nil, fmt.Errorf("pack record: %w", err)
	}
	var b bytes.Buffer
	b.WriteByte(p.version)
	if p.level == quick && len(text) < tiny {
		// One block of deflate, the last, which is stored: RFC 1951, section 3.2.4.
		b.Write([]byte{1, byte(len(text)), 0, ^byte(len(text)), 0xff})
		b.Write(text)
		return b.Bytes(), nil
	}
	w, ok := p.writers.Get().(*flate.Writer)
	if ok {
		w.Reset(&b) // keeps the dictionary
	} else if w, err = flate.NewWriterDict(&b, p.level, p.dict); err != nil {
		return nil, fmt.Errorf("pack record: %w", err)
	}
	_, err = w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("pack record: %w", err)
	}
	p.writers.Put(w)
	return b.Bytes(), nil
}

// item is an item that has v packed.
func (p *packing) item(k table.Key, v any, expires time.Time) (table.Item, error) {
	data, err := p.pack(v)
	return table.Item{Key: k, Data: data, Expires: expires}, err
}

// plain is v as JSON, without the escapes that only HTML needs.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

func (p *packing) unpack(it table.Item, v any) error {
	if err := p.decode(it.Data, v); err != nil {
		return fmt.Errorf("%w: %s %s: %w", errDamaged, it.PK, it.SK, err)
	}
	return nil
}

// newer reports whether data was packed by a later version of fedpost: its first byte is then a
// higher digit.
func (p *packing) newer(data []byte) bool {
	return len(data) > 0 && data[0] > p.version && data[0] <= '9'
}

func (p *packing) decode(data []byte, v any) error {
	if len(data) == 0 || data[0] != p.version {
		return errPacked
	}
	src := bytes.NewReader(data[1:])
	r, ok := p.readers.Get().(io.ReadCloser)
	if !ok {
		r = flate.NewReaderDict(src, p.dict)
	} else if err := r.(flate.Resetter).Reset(src, p.dict); err != nil {
		return err
	}
	if err := json.NewDecoder(r).Decode(v); err != nil {
		return err
	}
	p.readers.Put(r)
	return nil
}
