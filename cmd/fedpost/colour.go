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

// states have a colour by whether somebody has to look: red for what came to nothing,
// yellow for what waits, green for what is well.
var states = map[string]string{
	"delivered": green, "redundant": green, "superseded": green, "healthy": green, "enabled": green,
	"queued": "", "retrying": yellow, "parked": yellow, "unhealthy": yellow, "half-open": yellow, "recovering": yellow, "paused": yellow, "failing": yellow,
	"failed": red, "dead": red, "expired": red, "cancelled": red, "exhausted": red, "gone": red, "blocked": red, "disabled": red,
}

// styleOf is the style of a state of a recipient, a server or a webhook.
func styleOf(state string) string { return states[state] }

// screenOn returns a screen on f. Columns are fitted to the width of a terminal, and only
// a terminal gets colours; https://no-color.org turns them off. The console of Windows has
// to be asked before it understands them, so it gets none.
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

// styled is a text of one line that nothing in it can end early, in a style.
func (s screen) styled(style, text string) string {
	text = plain(text)
	if !s.colour || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// under is what is below out if out is s. Only texts made by styled go there.
func (s screen) under(out io.Writer) io.Writer {
	if s.w == nil {
		return out
	}
	return s.w
}
