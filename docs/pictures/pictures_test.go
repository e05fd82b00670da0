package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestThePicturesAreThoseOfTheirSource: `go run ./docs/pictures` was run after each change.
func TestThePicturesAreThoseOfTheirSource(t *testing.T) {
	for name, want := range pictures() {
		got, err := os.ReadFile(name)
		if err != nil || string(got) != want {
			t.Errorf("%s is not up to date (%v): go run ./docs/pictures", name, err)
		}
		for d := xml.NewDecoder(strings.NewReader(want)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

// TestAScreenIsWhatIsLeftOnIt of a table that is drawn again in place.
func TestAScreenIsWhatIsLeftOnIt(t *testing.T) {
	out := "head\r\n\x1b[2K1\r\n\x1b[2Ka \x1b[33mqueued\x1b[0m \r\n\x1b[2A\x1b[2K2\r\n\x1b[2Ka \x1b[32mdone\x1b[0m\r\nend\r\n"
	if got, want := screen(out), []string{"head", "2", "a \x1b[32mdone\x1b[0m", "end"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
