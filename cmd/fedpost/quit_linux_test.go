package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/term"
)

// pseudoTerminal opens both ends of a terminal: what is written to the keyboard is typed.
func pseudoTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	control := func(request uintptr, value *int32) {
		t.Helper()
		if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request, uintptr(unsafe.Pointer(value))); code != 0 {
			t.Skipf("no pseudo terminals here: %v", code)
		}
	}
	var unlocked, number int32
	control(syscall.TIOCSPTLCK, &unlocked)
	control(syscall.TIOCGPTN, &number)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return keyboard, terminal
}

// TestQEndsAWatch at a terminal, and so does what would be a signal there, also while
// fedpost does not answer. The terminal is left with its former settings.
func TestQEndsAWatch(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		for _, key := range []string{"q", "xyzQ", "\x03", "\x04", "\x1c"} {
			asked := make(chan struct{}) // closed once the terminal hands over each key
			first := sync.OnceFunc(func() { close(asked) })
			fedpost := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				first()
				switch {
				case hangs:
					<-r.Context().Done()
				case r.URL.Path != "/v1/stats":
					http.NotFound(w, r) // there is no history, as on AWS
				default:
					_, _ = io.WriteString(w, `{"at":"2026-11-22T12:00:00Z","counts":{"accepted":3}}`)
				}
			}))
			t.Cleanup(fedpost.Close)
			keyboard, terminal := pseudoTerminal(t)
			before, err := term.GetState(int(terminal.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, keyboard) }() // a terminal that nobody reads takes no more
			c := watchCommand{remote: remote{reach: reach{URL: fedpost.URL}}, Every: duration(leastEvery), Keys: terminal}
			ended := make(chan error, 1)
			go func() { ended <- c.Run(context.WithoutCancel(t.Context()), screen{w: terminal, width: 80}) }()
			<-asked
			if _, err := keyboard.WriteString(key); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("%q: %v", key, err)
			}
			after, err := term.GetState(int(terminal.Fd()))
			if err != nil || *after != *before {
				t.Errorf("%q leaves the terminal as %+v, it was %+v (%v)", key, after, before, err)
			}
		}
	}
}

// TestAWatchWithoutATerminalReadsNoKeys: its input may be another program's.
func TestAWatchWithoutATerminalReadsNoKeys(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, restore, err := untilQuit(t.Context(), r)
	if err != nil || restore() != nil || ctx != t.Context() {
		t.Errorf("error %v and context %v, want none and the test's own", err, ctx)
	}
	if _, err := w.WriteString("q"); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if left, err := io.ReadAll(r); err != nil || string(left) != "q" {
		t.Errorf("left is %q, %v", left, err)
	}
}
