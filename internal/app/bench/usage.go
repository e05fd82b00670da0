package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks is how many clock ticks /proc counts a second: 100 on all that Linux runs on
// (man 5 proc, sysconf(_SC_CLK_TCK)).
const ticks = 100

// processor is the processor time that a process has used, user and system, and whether it
// is known here: only Linux tells.
func processor(pid int) (time.Duration, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The name of the program stands in parentheses and may contain anything.
	_, rest, _ := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks, err1 == nil && err2 == nil
}

// memory is the most resident memory that a process has had, in bytes, 0 if that is not
// known.
func memory(pid int) int64 {
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
