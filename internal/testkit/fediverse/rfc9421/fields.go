package rfc9421

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// This parser knows the structured fields (RFC 9651) that signatures use: dictionaries
// whose members are inner lists of strings or byte sequences.

type params []param

type param struct{ name, text string }

func (p params) text(name string) string {
	for _, q := range p {
		if q.name == name {
			return q.text
		}
	}
	return ""
}

func (p params) integer(name string) int64 {
	n, err := strconv.ParseInt(p.text(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// item is a string with its parameters; raw is how it was written.
type item struct {
	value, raw string
	params     params
}

// member is a dictionary's member: an inner list or bytes.
type member struct {
	key, raw string
	inner    []item
	bytes    []byte
	params   params
}

type scanner struct{ in string }

func (s *scanner) eat(prefix string) bool {
	rest, ok := strings.CutPrefix(s.in, prefix)
	if ok {
		s.in = rest
	}
	return ok
}

func (s *scanner) spaces() { s.in = strings.TrimLeft(s.in, " \t") }

func parseDictionary(in string) ([]member, error) {
	s := &scanner{strings.TrimSpace(in)}
	if s.in == "" {
		return nil, errors.New("empty")
	}
	var members []member
	for {
		m, err := s.member()
		if err != nil {
			return nil, err
		}
		members = append(members, m)
		s.spaces()
		if s.in == "" {
			return members, nil
		}
		if !s.eat(",") {
			return nil, fmt.Errorf("want a comma before %q", s.in)
		}
		s.spaces()
	}
}

func (s *scanner) member() (m member, err error) {
	m.key = s.key()
	if m.key == "" || !s.eat("=") {
		return m, fmt.Errorf("want key= at %q", s.in)
	}
	start := s.in
	switch {
	case s.eat("("):
		for s.spaces(); !s.eat(")"); s.spaces() {
			it, err := s.item()
			if err != nil {
				return m, err
			}
			m.inner = append(m.inner, it)
		}
	case s.eat(":"):
		text, rest, ok := strings.Cut(s.in, ":")
		if !ok {
			return m, errors.New("byte sequence has no end")
		}
		s.in = rest
		if m.bytes, err = base64.StdEncoding.DecodeString(text); err != nil {
			return m, err
		}
	default:
		return m, fmt.Errorf("want an inner list or bytes at %q", s.in)
	}
	m.params, err = s.params()
	m.raw = start[:len(start)-len(s.in)]
	return m, err
}

func (s *scanner) item() (it item, err error) {
	start := s.in
	if it.value, err = s.quoted(); err != nil {
		return it, err
	}
	it.params, err = s.params()
	it.raw = start[:len(start)-len(s.in)]
	return it, err
}

func (s *scanner) params() (ps params, err error) {
	for s.eat(";") {
		s.spaces()
		p := param{name: s.key()}
		if p.name == "" {
			return nil, fmt.Errorf("want a parameter at %q", s.in)
		}
		if s.eat("=") {
			if strings.HasPrefix(s.in, `"`) {
				p.text, err = s.quoted()
			} else {
				end := strings.IndexFunc(s.in+";", func(r rune) bool { return strings.ContainsRune(";,) \t", r) })
				p.text, s.in = s.in[:end], s.in[end:]
			}
			if err != nil {
				return nil, err
			}
		}
		ps = append(ps, p)
	}
	return ps, nil
}

func (s *scanner) key() string {
	end := strings.IndexFunc(s.in+" ", func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789_-.*", r)
	})
	k := s.in[:end]
	s.in = s.in[end:]
	return k
}

func (s *scanner) quoted() (string, error) {
	if !s.eat(`"`) {
		return "", fmt.Errorf("want a string at %q", s.in)
	}
	var b strings.Builder
	for i := 0; i < len(s.in); i++ {
		switch c := s.in[i]; {
		case c == '"':
			s.in = s.in[i+1:]
			return b.String(), nil
		case c == '\\' && i+1 < len(s.in):
			i++
			b.WriteByte(s.in[i])
		case c < ' ' || c >= 0x7f:
			return "", fmt.Errorf("byte %#x in a string", c)
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("string has no end")
}
