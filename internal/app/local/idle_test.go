package local

import "testing"

func TestIdleConnectionsTakeAnEighthOfTheFiles(t *testing.T) {
	for files, want := range map[int]int{0: 256, 64: 16, 256: 64, 1024: 256, 4096: 512, 20_000: 1024, 1 << 20: 1024} {
		if got := Idle(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
	for files, want := range map[int]int{0: 256, 20: 8, 64: 16, 256: 64, 1024: 256, 1 << 20: 256} {
		if got := clients(files); got != want {
			t.Errorf("%d files: %d connections of clients, want %d", files, got, want)
		}
	}
	for files, want := range map[int]int{0: 768, 10: 2, 64: 6, 1024: 102, 4096: 409, 1 << 20: 768} {
		if got := Deliveries(files); got != want {
			t.Errorf("%d files: %d deliveries of a queue, want %d", files, got, want)
		}
	}
	if Files() < 0 {
		t.Errorf("%d files", Files())
	}
}
