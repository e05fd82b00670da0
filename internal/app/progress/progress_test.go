package progress

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestEachStepIsReportedToWhoAsked(t *testing.T) {
	Begin(context.Background(), "work that nobody waits for", nil)
	var told []string
	ctx := With(t.Context(), func(what string, _ Part) { told = append(told, what) })
	Begin(ctx, "copying", nil)
	Begin(ctx, "checking", nil)
	if len(told) != 2 || told[0] != "copying" || told[1] != "checking" {
		t.Errorf("told %q, want copying and checking", told)
	}
}

func TestThePartOfAFileIsWhatIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, make([]byte, 200), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.CopyN(io.Discard, f, 50); err != nil {
		t.Fatal(err)
	}
	if done, all := Of(f)(); done != 50 || all != 200 {
		t.Errorf("%d of %d bytes, want 50 of 200", done, all)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if done, all := Of(r)(); done != 0 || all != 0 {
		t.Errorf("%d of %d bytes of a pipe, want 0 of 0", done, all)
	}
}
