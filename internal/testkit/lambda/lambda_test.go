package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// TestMain makes the test binary the function that the tests run.
func TestMain(m *testing.M) {
	switch os.Getenv("FUNCTION") {
	case "":
		os.Exit(m.Run())
	case "exits":
		fmt.Fprintln(os.Stderr, "TABLE_NAME is not set")
		os.Exit(1)
	default:
		lambda.Start(sample)
	}
}

type order struct {
	Do   string `json:"do"`
	Text string `json:"text,omitempty"`
	Size int    `json:"size,omitempty"`
}

type seen struct {
	Text      string    `json:"text"`
	Process   int       `json:"process"`
	RequestID string    `json:"requestId"`
	ARN       string    `json:"arn"`
	Deadline  time.Time `json:"deadline"`
	Leaked    string    `json:"leaked"`
	Env       string    `json:"env"`
}

func sample(ctx context.Context, o order) (*seen, error) {
	lc, _ := lambdacontext.FromContext(ctx)
	deadline, _ := ctx.Deadline()
	switch o.Do {
	case "fail":
		return nil, errors.New(o.Text)
	case "panic":
		panic(o.Text)
	case "hang":
		<-make(chan int)
	case "wait":
		<-ctx.Done()
	case "compute": // for Size milliseconds of processor time
		compute(time.Duration(o.Size) * time.Millisecond)
	case "grow":
		return &seen{Text: strings.Repeat("x", o.Size)}, nil
	}
	return &seen{
		Text: o.Text, Process: os.Getpid(), RequestID: lc.AwsRequestID, ARN: lc.InvokedFunctionArn,
		Deadline: deadline, Leaked: os.Getenv("HOME"), Env: os.Getenv("AWS_LAMBDA_FUNCTION_NAME"),
	}, nil
}

func compute(d time.Duration) {
	for began, sum := used(), 0; used()-began < d; {
		for i := range 100_000 {
			sum += i
		}
	}
}

func used() time.Duration {
	d, err := processorTime(os.Getpid())
	if err != nil {
		panic(err)
	}
	return d
}

func function(t *testing.T, o Options) *Function {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Binary = binary
	if o.Env == nil {
		o.Env = map[string]string{"FUNCTION": "sample"}
	}
	f := New(o)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func invoke(t *testing.T, f *Function, o order) (seen, error) {
	t.Helper()
	event, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.Invoke(t.Context(), event)
	if err != nil {
		return seen{}, err
	}
	var s seen
	if err := json.Unmarshal(answer, &s); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	return s, nil
}

func TestAnEventIsAnsweredAndTheEnvironmentKept(t *testing.T) {
	f := function(t, Options{Name: "sample", Timeout: 20 * time.Second})
	before := time.Now()
	first, err := invoke(t, f, order{Text: "größer <&> 🐘"})
	if err != nil {
		t.Fatal(err)
	}
	if first.Text != "größer <&> 🐘" || first.Leaked != "" || first.Env != "sample" || !strings.HasSuffix(first.ARN, ":function:sample") {
		t.Errorf("got %+v", first)
	}
	if left := first.Deadline.Sub(before); left < 19*time.Second || left > 40*time.Second {
		t.Errorf("deadline is %s from now, want about 20s", left)
	}
	second, err := invoke(t, f, order{})
	if err != nil {
		t.Fatal(err)
	}
	if second.Process != first.Process || second.RequestID == first.RequestID || len(f.Starts()) != 1 {
		t.Errorf("got %+v after %+v, with %d starts", second, first, len(f.Starts()))
	}
	if init := f.Starts()[0].Init; init <= 0 || init > initLimit {
		t.Errorf("init took %s", init)
	}
	if m, err := f.PeakMemory(); err != nil || m < 1<<20 {
		t.Errorf("peak memory %d, %v", m, err)
	}
}

func TestAnErrorOfTheFunctionIsPassedOn(t *testing.T) {
	f := function(t, Options{})
	_, err := invoke(t, f, order{Do: "fail", Text: "no table"})
	if own, ok := errors.AsType[*Error](err); !ok || own.Message != "no table" || own.Type != "errorString" {
		t.Errorf("got %v", err)
	}
	if _, err := invoke(t, f, order{}); err != nil || len(f.Starts()) != 1 {
		t.Errorf("after an error: %v, %d starts, want the same environment", err, len(f.Starts()))
	}
}

func TestAPanicEndsTheEnvironment(t *testing.T) {
	f := function(t, Options{})
	_, err := invoke(t, f, order{Do: "panic", Text: "nil map"})
	if err == nil || !strings.Contains(err.Error(), "nil map") {
		t.Errorf("got %v", err)
	}
	// The answer may arrive before the process has ended: wait for its end.
	f.mu.Lock()
	dying := f.all[0]
	f.mu.Unlock()
	<-dying.done
	if _, err := invoke(t, f, order{}); err != nil || len(f.Starts()) != 2 {
		t.Errorf("after a panic: %v, %d starts, want a new environment", err, len(f.Starts()))
	}
}

func TestAFunctionThatRunsOutOfTimeIsKilled(t *testing.T) {
	f := function(t, Options{Timeout: 200 * time.Millisecond})
	if _, err := invoke(t, f, order{Do: "hang"}); !errors.Is(err, ErrTimeout) {
		t.Errorf("got %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.all[0].exited() {
		t.Error("the process still runs")
	}
}

func TestAProcessThatExitsSaysWhy(t *testing.T) {
	var logs bytes.Buffer
	f := function(t, Options{Env: map[string]string{"FUNCTION": "exits"}, Logs: &logs})
	_, err := invoke(t, f, order{})
	if !errors.Is(err, ErrExited) || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "TABLE_NAME is not set") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(logs.String(), "TABLE_NAME is not set") {
		t.Errorf("logged %q", logs.String())
	}
}

func TestConcurrentEventsHaveEnvironmentsOfTheirOwn(t *testing.T) {
	f := function(t, Options{Timeout: time.Second})
	var wg sync.WaitGroup
	for range 3 {
		// Each event waits for its deadline, so all three are under way at once.
		wg.Go(func() {
			if _, err := f.Invoke(t.Context(), []byte(`{"do":"wait"}`)); err != nil && !errors.Is(err, ErrTimeout) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(f.Starts()); n != 3 {
		t.Errorf("%d environments for 3 concurrent events", n)
	}
}

func TestAResponseOverLambdasLimitIsAnError(t *testing.T) {
	f := function(t, Options{Timeout: 20 * time.Second})
	_, err := invoke(t, f, order{Do: "grow", Size: responseLimit})
	if own, ok := errors.AsType[*Error](err); !ok || own.Type != "Function.ResponseSizeTooLarge" {
		t.Errorf("got %v", err)
	}
}

func TestAClosedFunctionTakesNoEvents(t *testing.T) {
	f := function(t, Options{})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := invoke(t, f, order{}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestAShareOfAProcessor: an environment with a share of a processor is stopped and goes on
// again and again, answers all the same, and its processor time is counted.
func TestAShareOfAProcessor(t *testing.T) {
	f := function(t, Options{Timeout: time.Minute, Share: 0.1})
	for range 2 {
		if _, err := invoke(t, f, order{Do: "compute", Size: 50}); err != nil {
			t.Fatal(err)
		}
	}
	if used, err := f.CPU(); err != nil || used < 100*time.Millisecond {
		t.Errorf("%s of a processor's time for two events that take 50 ms of it each: %v", used, err)
	}
	f.mu.Lock()
	pid := f.all[0].cmd.Process.Pid
	f.mu.Unlock()
	for _, stopped := range []bool{true, false, true} {
		for giveUp := time.Now().Add(time.Minute); state(t, pid) == "T" != stopped; runtime.Gosched() {
			if time.Now().After(giveUp) {
				t.Fatalf("for a minute the process was never in the state stopped=%t", stopped)
			}
		}
	}
}

// state is the state of a process, of which T is stopped.
func state(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}
