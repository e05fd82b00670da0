package outbound

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestASecondActivityFindsAConnectionToEachHost sends to 300 hosts twice. It does so in a
// bubble of synctest because net/http does not keep a connection whose writer had no
// processor for 50 ms.
func TestASecondActivityFindsAConnectionToEachHost(t *testing.T) {
	const hosts = 300
	for idle, want := range map[int]int32{hosts: hosts, 0: 2 * hosts} {
		synctest.Test(t, func(t *testing.T) {
			var connections atomic.Int32
			client := trial(t, func(c *Config) { c.Idle = idle })
			pipe(client, accepting(&connections))
			for range 2 {
				for h := range hosts {
					if _, err := post(t, client, fmt.Sprintf("http://h%d.test/", h)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n := connections.Load(); n != want {
				t.Errorf("%d connections with %d kept, want %d", n, idle, want)
			}
			client.transport.(*pool).closeIdle()
		})
	}
}
