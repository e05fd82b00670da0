package main

import (
	"io"
	"os"
	"runtime"

	"golang.org/x/term"
)

// Styles of a terminal (ECMA-48, Select Graphic Rendition).
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// states have a colour: red for failures, yellow for waiting, green for success.
var states = map[string]string{
	"delivered": green, "redundant": green, "superseded": green, "healthy": green, "enabled": green,
	"queued": "", "retrying": yellow, "parked": yellow, "unhealthy": yellow, "half-open": yellow, "recovering": yellow, "paused": yellow, "failing": yellow,
	"failed": red, "dead": red, "expired": red, "cancelled": red, "exhausted": red, "gone": red, "blocked": red, "disabled": red,
}

// styleOf is the style of a state of a recipient, a server or a webhook.
func styleOf(state string) string { return states[state] }

// screenOn returns a screen on f. Only terminals get colours, except the console of Windows, which has
// to be configured for them; https://no-color.org turns them off.
func screenOn(f *os.File) screen {
	s := screen{w: f}
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return s
	}
	if w, _, err := term.GetSize(fd); err == nil {
		s.width = w
	}
	s.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows"
	return s
}

// styled is a text of one line in a style, which nothing in the text can end.
func (s screen) styled(style, text string) string {
	text = plain(text)
	if !s.colour || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// under is the writer below out if out is s. It does not escape, so only texts made by styled go
// there.
func (s screen) under(out io.Writer) io.Writer {
	if s.w == nil {
		return out
	}
	return s.w
}
