package local

import "testing"

func TestIdleConnectionsTakeAnEighthOfTheFiles(t *testing.T) {
	for files, want := range map[int]int{0: 256, 256: 256, 1024: 256, 4096: 512, 20_000: 1024, 1 << 20: 1024} {
		if got := Idle(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
	if Files() < 0 {
		t.Errorf("%d files", Files())
	}
}
