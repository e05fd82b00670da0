package bench

import (
	"bufio"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// small is a plan that is measured in an instant.
func small(m Mix) Plan {
	return Plan{Mix: m, Activities: 20, Recipients: 3, Callers: 4, Hosts: 5, Key: "rsa", Body: 700}
}

func TestAPlanSaysAllThatIsWrongWithIt(t *testing.T) {
	for _, m := range Mixes {
		if err := small(m).Check(); err != nil {
			t.Error(err)
		}
	}
	wrong := Plan{Mix: "x", Activities: MaxDeliveries + 1, Recipients: MaxRecipients + 1, Callers: MaxCallers + 1, Rate: math.NaN(), Hosts: MaxHosts + 1, Key: "dsa", HTTP2: true, Sick: 1, Body: 1, Beside: -1}
	err := wrong.Check()
	if !errors.Is(err, ErrPlan) {
		t.Fatal(err)
	}
	for _, word := range []string{"mix", "activities is", "recipients is", "callers", "rate", "hosts", "key", "HTTP/2", "sick", "body", "beside", "more than"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("nothing of %q in: %v", word, err)
		}
	}
}

func TestThePlanBoundsTheWork(t *testing.T) {
	p := small(FanOut)
	p.Activities, p.Recipients = MaxDeliveries/100+1, 100
	if err := p.Check(); !errors.Is(err, ErrPlan) {
		t.Errorf("%d deliveries are planned: %v", p.Activities*p.Recipients, err)
	}
}

func TestSickHostsAreTheirShare(t *testing.T) {
	for _, c := range []struct {
		hosts int
		sick  float64
		want  int
	}{{200, 0.1, 20}, {5, 0.2, 1}, {5, 0, 0}, {10, 0.5, 5}, {3, 0.1, 0}} {
		p := Plan{Hosts: c.hosts, Sick: c.sick, Activities: 1, Recipients: c.hosts}
		sick := 0
		for host := range c.hosts {
			if p.sick(host) {
				sick++
			}
		}
		if sick != c.want || p.healthy() != c.hosts-c.want {
			t.Errorf("%d of %d hosts are sick, %d deliveries remain, want %d", sick, c.hosts, p.healthy(), c.want)
		}
	}
}

func TestTimesToAnswer(t *testing.T) {
	for text, most := range map[string]time.Duration{"0": 0, "": 0, "20ms": 20 * time.Millisecond, "5ms-50ms": 50 * time.Millisecond, "~20ms": 200 * time.Millisecond} {
		var times, again Times
		if err := times.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if err := again.UnmarshalText([]byte(times.String())); err != nil || again != times {
			t.Errorf("%q is written as %q, which is read as %v, error %v", text, times, again, err)
		}
		var least, sum time.Duration = time.Hour, 0
		for range 10_000 {
			d := times.draw()
			least, sum = min(least, d), sum+d
			if d < 0 || d > most {
				t.Fatalf("%q: %s", text, d)
			}
		}
		if text == "5ms-50ms" && (least < 5*time.Millisecond || least > 6*time.Millisecond) {
			t.Errorf("%q: the least of 10,000 is %s", text, least)
		}
		if mean := sum / 10_000; text == "~20ms" && (mean < 18*time.Millisecond || mean > 22*time.Millisecond) {
			t.Errorf("%q: the mean of 10,000 is %s", text, mean)
		}
	}
	for _, text := range []string{"x", "-5ms", "16s", "50ms-5ms", "5ms-16s", "~1ms-2ms", "~", "1ms-"} {
		if err := new(Times).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestPercentiles(t *testing.T) {
	s := newSpread(0)
	if got := s.result(); got != (Spread{}) {
		t.Errorf("of nothing: %+v", got)
	}
	for n := range 100 {
		s.add(time.Duration(100-n) * time.Second)
	}
	if got := s.result(); got != (Spread{P50: 50, P90: 90, P99: 99, Max: 100}) {
		t.Errorf("percentiles of 1 to 100 s are %+v, want 50, 90, 99 and 100", got)
	}
}

func TestABodyIsReadBackToTheByte(t *testing.T) {
	for _, size := range []int{minBody, 301, 700, 1500, maxBody} {
		for _, n := range []int{0, 7, 123456} {
			body := bodyOf(n, size)
			if len(body) < size-10 || len(body) > size+10 {
				t.Errorf("%d bytes are %d", size, len(body))
			}
			if got, err := numberOf(body, size); err != nil || got != n {
				t.Errorf("activity %d is read as %d, error %v", n, got, err)
			}
			for _, at := range []int{0, len(bodyBegin) - 1, len(body) / 2, len(body) - 1} {
				changed := append([]byte(nil), body...)
				changed[at] ^= 1
				if _, err := numberOf(changed, size); err == nil && n > 0 {
					t.Errorf("byte %d was changed, and nobody noticed", at)
				}
			}
			if _, err := numberOf(body[:len(body)-1], size); err == nil {
				t.Error("a body that was cut is taken")
			}
		}
	}
}

func TestABodyWithASignatureAddedIsFoundByItsID(t *testing.T) {
	signed := []byte(`{"type":"Create","id":"https://bench.example/activities/42","signature":{"id":"x"}}`)
	if n, err := numberByID(signed); err != nil || n != 42 {
		t.Errorf("%d, %v, want 42", n, err)
	}
	if _, err := numberOf(signed, 1500); err == nil {
		t.Error("a body that was changed passes for the activity itself")
	}
	for _, body := range []string{
		``, `[]`, `{`, `{"id":42}`, `{"id":"https://bench.example/activities/"}`, `{"id":"https://bench.example/activities/-1"}`,
		`{"id":"https://bench.example/activities/1x"}`, `{"id":"https://other.example/activities/1"}`, `{"object":{"id":"https://bench.example/activities/1"}}`,
	} {
		if n, err := numberByID([]byte(body)); err == nil {
			t.Errorf("%s is taken for activity %d", body, n)
		}
	}
}

func TestProcessorTimeAndMemoryOfThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux tells")
	}
	before, known := processor(os.Getpid())
	for begin := clock(); clock()-begin < 50*time.Millisecond; {
		bodyOf(1, 1000)
	}
	after, _ := processor(os.Getpid())
	if !known || after-before < 20*time.Millisecond || memory(os.Getpid()) < 1<<20 {
		t.Errorf("%s before, %s after, %d bytes, known %t", before, after, memory(os.Getpid()), known)
	}
	if _, known := processor(1 << 30); known || memory(1<<30) != 0 {
		t.Error("a process that is not there has used something")
	}
}

func TestWhatAProcessHasStartedCountsWithIt(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux tells")
	}
	// The shell starts another, which works and then waits for its input to end.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read x'; true`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "done\n" {
		t.Fatalf("the shell prints %q, error %v; want done", line, err)
	}
	own, _ := read(cmd.Process.Pid)
	if all, known := processor(cmd.Process.Pid); !known || all-own.used < 10*time.Millisecond || len(started(cmd.Process.Pid)) != 1 {
		t.Errorf("%s with what it started, %s alone, %d started", all, own.used, len(started(cmd.Process.Pid)))
	}
	if all, own := memory(cmd.Process.Pid), peak(cmd.Process.Pid); all <= own {
		t.Errorf("%d bytes with what it started, %d alone", all, own)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestUnitsAreMeasured(t *testing.T) {
	u, err := MeasureUnits()
	if err != nil || u.Signature <= 0 || u.Signature > 1 {
		t.Errorf("%+v, error %v", u, err)
	}
}

func TestABudgetIsExceededByAQuarter(t *testing.T) {
	b := BudgetRun{Plan: small(FanOut), InSignatures: 2}
	for used, want := range map[float64]bool{1: false, 2.49: false, 2.51: true, 10: true} {
		if _, over := b.Over(Result{Server: &Usage{InSignatures: used}}); over != want {
			t.Errorf("%v of a budget of 2 is over it: %t", used, over)
		}
	}
	b.InCalls = 4
	for waiting, want := range map[float64]bool{0.1: false, 0.49: false, 0.51: true} {
		r := Result{Server: &Usage{InSignatures: 1}, Accepting: Spread{P50: 0.1}, Waiting: Spread{P50: waiting}}
		if _, over := b.Over(r); over != want {
			t.Errorf("%v s after calls of 0.1 s is over a budget of 4 calls: %t", waiting, over)
		}
	}
	if _, over := b.Over(Result{}); !over {
		t.Error("what was not measured is within its budget")
	}
}

func TestABudgetThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{``, `{}`, `{"runs":[]}`, `{"runs":[{"mix":"fanout"}]}`, `[]`} {
		file := filepath.Join(t.TempDir(), "budget.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadBudget(file); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := ReadBudget("testdata/none.json"); err == nil {
		t.Error("a file that is not there is taken")
	}
}

func TestTheCommittedBudgetIsOne(t *testing.T) {
	if _, err := ReadBudget("../../../bench/budget.json"); err != nil {
		t.Error(err)
	}
}
