package lambda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// environment is one process of the function and its Runtime API.
type environment struct {
	o      Options
	api    *api
	server *http.Server
	cmd    *exec.Cmd
	tail   *tail
	done   chan struct{} // closed when the process has ended
	init   time.Duration
}

// initLimit is Lambda's own limit of the init phase.
const initLimit = 10 * time.Second

// start runs the binary and waits until it asks for its first event.
func start(ctx context.Context, o Options, logs io.Writer) (*environment, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the runtime API: %w", err)
	}
	e := &environment{o: o, api: newAPI(), tail: &tail{w: logs}, done: make(chan struct{})}
	e.server = &http.Server{Handler: e.api, ReadHeaderTimeout: initLimit}
	go func() { _ = e.server.Serve(listener) }() // ends with ErrServerClosed in stop

	// The process outlives the call that started it: stop ends it.
	e.cmd = exec.Command(o.Binary)
	e.cmd.Env = e.variables(listener.Addr().String())
	e.cmd.Stdout, e.cmd.Stderr = e.tail, e.tail
	began := time.Now()
	if err := e.cmd.Start(); err != nil {
		return nil, errors.Join(err, e.server.Close())
	}
	go func() {
		// ProcessState says how the process ended; the error only repeats it.
		_ = e.cmd.Wait()
		close(e.done)
	}()

	timeout := time.NewTimer(initLimit)
	defer timeout.Stop()
	select {
	case at := <-e.api.ready:
		e.init = at.Sub(began)
		if o.Share > 0 {
			go throttle(e.cmd.Process, o.Share, e.done)
		}
		return e, nil
	case err = <-e.api.initError:
	case <-e.done:
		err = e.exitError()
	case <-timeout.C:
		err = fmt.Errorf("init: %w", ErrTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, e.stop())
}

// variables is the process's whole environment.
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
func (e *environment) variables(api string) []string {
	all := map[string]string{
		"AWS_LAMBDA_RUNTIME_API":          api,
		"AWS_LAMBDA_FUNCTION_NAME":        e.o.Name,
		"AWS_LAMBDA_FUNCTION_VERSION":     "$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": strconv.Itoa(e.o.Memory),
		"AWS_LAMBDA_INITIALIZATION_TYPE":  "on-demand",
		"AWS_LAMBDA_LOG_FORMAT":           "JSON",
		"AWS_LAMBDA_LOG_LEVEL":            "DEBUG", // as in the template
		"AWS_EXECUTION_ENV":               "AWS_Lambda_provided.al2023",
		"_HANDLER":                        "bootstrap",
		"TZ":                              ":UTC",
		"PATH":                            "/usr/local/bin:/usr/bin:/bin",
	}
	for name, value := range e.o.Env {
		all[name] = value
	}
	var list []string
	for name, value := range all {
		list = append(list, name+"="+value)
	}
	return list
}

// invoke hands over one event and waits for the answer.
func (e *environment) invoke(ctx context.Context, event []byte) ([]byte, error) {
	deadline := time.Now().Add(e.o.Timeout)
	in := invocation{event: event, deadline: deadline, arn: arn(e.o.Name), answer: make(chan answer, 1)}
	timeout := time.NewTimer(e.o.Timeout)
	defer timeout.Stop()
	select {
	case e.api.events <- in:
	case <-e.done:
		return nil, e.exitError()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timeout.C:
		return nil, ErrTimeout
	}
	select {
	case a := <-in.answer:
		return a.body, a.err
	case <-e.done:
		return nil, e.exitError()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timeout.C:
		return nil, ErrTimeout
	}
}

func arn(name string) string {
	return "arn:aws:lambda:eu-central-1:123456789012:function:" + name
}

func (e *environment) exited() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// exitError says how the process ended and what the process printed last.
func (e *environment) exitError() error {
	return fmt.Errorf("%w (%s): %s", ErrExited, e.cmd.ProcessState, e.tail)
}

// stop ends the process, at once as Lambda does, and its Runtime API.
func (e *environment) stop() error {
	var killed error
	if !e.exited() {
		killed = e.cmd.Process.Kill()
		if errors.Is(killed, os.ErrProcessDone) {
			killed = nil
		}
	}
	<-e.done
	return errors.Join(killed, e.server.Close())
}

// tail passes on the output of a process and keeps the end of that output, which
// usually says why the process ended.
type tail struct {
	w    io.Writer
	last bytes.Buffer
}

const tailBytes = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.last.Write(b)
	if over := t.last.Len() - tailBytes; over > 0 {
		t.last.Next(over)
	}
	return t.w.Write(b)
}

// String is only called when the process has ended and nobody writes any more.
func (t *tail) String() string { return strings.TrimSpace(t.last.String()) }

// processorTime reads what a process has used, from /proc: user and system time, in
// hundredths of a second (USER_HZ, which is 100 for all of Linux's user space).
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	// The name, in parentheses, may have spaces; utime and stime are the fields 14 and 15.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("read processor time: /proc stat is too short")
	}
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// peakMemory reads the high-water mark of a process's resident memory from /proc. The
// resource usage of an ended child process would be wrong: at exec a child inherits the
// mark of its parent, the test.
func peakMemory(pid int) (int64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("read peak memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read peak memory: %w", err)
			}
			return n << 10, nil
		}
	}
	return 0, errors.New("read peak memory: no VmHWM in /proc status")
}
