package claims_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// BenchmarkClaim claims a node, and releases it, each with a new Manager, as holdfast claim
// does, in a ledger of a thousand events and in one of a million. (TMPDIR=/dev/shm has room
// for them in memory: 4 GB.)
func BenchmarkClaim(b *testing.B) {
	for _, size := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint("events=", size), func(b *testing.B) {
			dir := b.TempDir()
			check(b, os.Mkdir(dir+"/ledger", 0o777))
			at := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339Nano)
			for n := range size {
				kind := []string{"lock_acquired", "lock_released"}[n%2]
				event := fmt.Sprintf(`{"type":%q,"timestamp":%q,"node_id":"1.%d","owner":"a","expires_at":%q}`, kind, at, n/2%5000, at)
				check(b, os.WriteFile(eventFile(dir, n+1), []byte(event), 0o644))
			}
			fresh := func() *claims.Manager { return &claims.Manager{Dir: dir, Ledger: ledger.Ledger{NoSync: true}} }
			for i := -1; i < b.N; i++ {
				if i == 0 { // the first one has replayed the ledger
					b.ResetTimer()
				}
				check(b, errOf(fresh().Claim(b.Context(), "2", "a")))
				check(b, fresh().Release(b.Context(), "2", "a"))
			}
		})
	}
}
