package store

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"fedpost/internal/engine/table"
)

// TestRecordsOfAnyLengthArePackedSoThatEveryVersionReadsThem: also those of so few bytes that
// they stay as they are. All are deflate with the dictionary of their kind.
func TestRecordsOfAnyLengthArePackedSoThatEveryVersionReadsThem(t *testing.T) {
	for name, p := range map[string]*packing{"activities": activityPacking, "outcomes": outcomePacking, "parked": parkedPacking, "events": eventPacking} {
		for n := range 3 * tiny {
			want := strings.Repeat(`<&>"é\n0123456789`, n)[:n]
			data, err := p.pack(map[string]string{"v": want})
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]string
			if err := p.unpack(table.Item{Data: data}, &got); err != nil || got["v"] != strings.ToValidUTF8(want, "\ufffd") {
				t.Fatalf("%s: %q of %d bytes is read as %q, %v", name, want, n, got["v"], err)
			}
			text, err := io.ReadAll(flate.NewReaderDict(bytes.NewReader(data[1:]), p.dict))
			if err != nil || !json.Valid(text) {
				t.Fatalf("%s: %d bytes are no deflate of JSON: %q, %v", name, n, text, err)
			}
			if p.level == quick && len(data) > len(text)+8 {
				t.Errorf("%s: %d bytes are packed into %d", name, len(text), len(data))
			}
		}
	}
}

// TestClaimsAndOutcomesAreNotLongerPacked: a usual one takes at most six bytes besides its own.
func TestClaimsAndOutcomesAreNotLongerPacked(t *testing.T) {
	for name, v := range map[string]string{
		"claim":   `{"o":"worker-of-26-characters....00000000000000001234.1","u":1794000000000,"j":"01KAQ9ZP0J5X8ZQ3V9W7M2T4RB"}`,
		"outcome": `{"o":"worker-of-26-characters....00000000000000001234.1","r":[{"p":0,"s":"delivered","c":202,"t":1794000000000}]}`,
	} {
		data, err := outcomePacking.pack(json.RawMessage(v))
		if most := len(v) + len("\n") + 6; err != nil || len(data) > most {
			t.Errorf("%s of %d bytes is packed into %d, want at most %d; %v", name, len(v), len(data), most, err)
		}
	}
}
