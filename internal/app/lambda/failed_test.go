package lambda

import (
	"context"
	"errors"
	stdlog "log"
	"log/slog"
	"strings"
	"testing"
)

func TestAnInvocationThatFailsSaysWhyOnce(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewJSONHandler(&text, nil))
	defer stdlog.SetOutput(stdlog.Writer())
	defer stdlog.SetFlags(stdlog.Flags())
	handle := logged(log, func(_ context.Context, do string) (string, error) {
		switch do {
		case "fail":
			return "", errors.New("no table")
		case "panic":
			panic("nil map")
		}
		return do, nil
	})
	for range 2 {
		if got, err := handle(t.Context(), "work"); got != "work" || err != nil {
			t.Errorf("the handler returns %q, error %v; want work", got, err)
		}
	}
	if got := text.String(); strings.Count(got, "ready") != 1 || strings.Count(got, "\n") != 1 {
		t.Errorf("after two invocations that succeed the log says %q, want one line that the process is ready", got)
	}
	if _, err := handle(t.Context(), "fail"); err == nil || strings.Count(text.String(), "no table") != 1 {
		t.Errorf("%v, and the log says %s", err, text.String())
	}
	func() {
		defer func() {
			if v := recover(); v != "nil map" {
				t.Errorf("the panic ends as %v", v)
			}
		}()
		_, _ = handle(t.Context(), "panic")
	}()
	if !strings.Contains(text.String(), "panic: nil map") || !strings.Contains(text.String(), "failed_test.go") {
		t.Errorf("a panic is not logged with its stack: %s", text.String())
	}
	// What aws-lambda-go prints of an error is logged already; its other lines are not.
	text.Reset()
	stdlog.Printf("%s", `{"errorMessage":"no table","errorType":"errorString"}`)
	stdlog.Print("failed to GET the next invocation")
	if s := text.String(); strings.Contains(s, "no table") || !strings.Contains(s, "failed to GET") || !strings.Contains(s, `"level":"ERROR"`) {
		t.Errorf("the log says %s", s)
	}
}
