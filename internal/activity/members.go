package activity

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Members calls f with the members of a JSON object in their order, until f returns false. It reports
// whether text is an object. text must be valid JSON (json.Valid); values are parts of it, so f must not
// change them. It only finds the ends of values: encoding/json's decoder reads each value three times.
func Members(text []byte, f func(name string, value json.RawMessage) bool) bool {
	text = bytes.TrimLeft(text, space)
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	for {
		text = bytes.TrimLeft(text[1:], space) // behind the brace or a comma
		if text[0] == '}' {
			return true
		}
		end := valueEnd(text)
		name, _ := unquote(text[:end]) // a string of valid JSON
		text = bytes.TrimLeft(text[end:], space)
		text = bytes.TrimLeft(text[1:], space) // behind the colon
		end = valueEnd(text)
		if !f(name, json.RawMessage(text[:end:end])) {
			return true
		}
		if text = bytes.TrimLeft(text[end:], space); text[0] == '}' {
			return true
		}
	}
}

const space = " \t\r\n"

// unquote decodes a JSON string, without encoding/json if it has no escapes.
func unquote(quoted []byte) (s string, err error) {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	err = json.Unmarshal(quoted, &s)
	return s, err
}

// valueEnd returns where the first value of text ends.
func valueEnd(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			continue
		default: // a number, true, false or null
			if n := bytes.IndexAny(text[i:], ",:]} \t\r\n"); n < 0 {
				i = len(text)
			} else {
				i += n - 1
			}
		}
		if depth == 0 {
			return min(i+1, len(text))
		}
	}
	return len(text)
}

// stringEnd returns where the string at the beginning of text ends.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			break
		}
		// The quote is escaped if an odd number of backslashes precedes it.
		escapes := 0
		for j := i + n - 1; j >= i && text[j] == '\\'; j-- {
			escapes++
		}
		if i += n; escapes%2 == 0 {
			return i + 1
		}
	}
	return len(text)
}
