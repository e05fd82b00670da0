package bench

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Units are what this machine needs for known work, in seconds of one processor. They are
// the least of several rounds: whatever else the machine does only adds to them. On Unix
// they are processor time, as are the server's figures.
type Units struct {
	Signature float64 `json:"rsa2048SignatureSeconds"` // of Go's crypto/rsa
}

const rounds, signatures = 5, 100 // a round

// MeasureUnits takes about half a second.
func MeasureUnits() (Units, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return Units{}, fmt.Errorf("key for measuring the machine: %w", err)
	}
	digest, took := sha256.Sum256([]byte("fedpost")), make([]float64, rounds)
	for round := range took {
		begin := clock()
		for range signatures {
			if _, err := key.Sign(rand.Reader, digest[:], crypto.SHA256); err != nil {
				return Units{}, fmt.Errorf("measure the machine: %w", err)
			}
		}
		took[round] = (clock() - begin).Seconds() / signatures
	}
	return Units{slices.Min(took)}, nil
}

// ticks is how many clock ticks /proc counts a second: 100 on every architecture of Linux (man 5
// proc, sysconf(_SC_CLK_TCK)).
const ticks = 100

// processor is the processor time that a process and those it has started have used, user
// and system, and whether it is known: only on Linux.
func processor(pid int) (time.Duration, bool) {
	own, known := read(pid)
	used := own.used
	if known {
		for _, p := range started(pid) {
			used += p.used
		}
	}
	return used, known
}

// process is what /proc says of one.
type process struct {
	pid, parent int
	used        time.Duration
}

func read(pid int) (process, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	// The name of the program stands in parentheses and may contain anything.
	_, rest, _ := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return process{}, false
	}
	parent, err0 := strconv.Atoi(fields[1])
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return process{pid: pid, parent: parent, used: time.Duration(user+system) * time.Second / ticks}, errors.Join(err0, err1, err2) == nil
}

// started lists the processes that pid has started, directly or not. A peer's workers and
// its Redis are such.
func started(pid int) []process {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	of := map[int][]process{}
	for _, d := range dirs {
		n, err := strconv.Atoi(d.Name())
		if err != nil {
			continue // not a process
		}
		if p, ok := read(n); ok {
			of[p.parent] = append(of[p.parent], p)
		}
	}
	all := of[pid]
	for i := 0; i < len(all); i++ {
		all = append(all, of[all[i].pid]...)
	}
	return all
}

// memory is the most resident memory that a process and those it has started have had, in
// bytes, 0 if that is not known. What they share counts for each.
func memory(pid int) int64 {
	most := peak(pid)
	for _, p := range started(pid) {
		most += peak(p.pid)
	}
	return most
}

func peak(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}
