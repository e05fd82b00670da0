package enqueue

import "unicode/utf8"

// escapedLen is how many bytes s takes as a JSON string in a queue message.
func escapedLen(s string) int {
	n := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f':
				n += 2
			case c < ' ':
				n += 6
			default:
				n++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == '\u2028' || r == '\u2029' || r == '\ufffe' || r == '\uffff' {
			n += 6
		} else {
			n += size
		}
		i += size
	}
	return n
}
