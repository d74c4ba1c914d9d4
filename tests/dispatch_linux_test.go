package tests

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/dispatch"
)

// dispatchID is the id that all contend for.
const dispatchID = "20260102T030405-abc"

// noSuchPID is beyond all that the kernel gives.
const noSuchPID = 1<<31 - 2

var longAgo = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

func init() { roles["claim-race"] = claimRace }

// claimRace claims the id in the folder args[0] whenever it is told to, and gives
// the claim up when it is told to.
func claimRace(args []string) error {
	var claim *dispatch.Claim
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		if orders.Text() == "release" {
			outcome, err := claim.Release()
			fmt.Println(outcome, err)
			continue
		}
		got, err := dispatch.Locks{Dir: args[0]}.Acquire(context.Background(), dispatchID)
		var conflict *dispatch.ConflictError
		switch {
		case err == nil:
			claim = got
			fmt.Println("claimed", claim.Nonce)
		case errors.As(err, &conflict):
			fmt.Println("conflict")
		default:
			fmt.Println("error:", err)
		}
	}
	return nil
}

func init() { roles["claim-keep"] = claimKeep }

// claimKeep claims the id in the folder args[0], says so, and keeps it.
func claimKeep(args []string) error {
	if _, err := (dispatch.Locks{Dir: args[0]}).Acquire(context.Background(), dispatchID); err != nil {
		return err
	}
	fmt.Println("claimed")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// killedClaim returns the text of a claim whose process was killed, made under the
// kernel lock that others still have beside it.
func killedClaim(t *testing.T, dir string) string {
	t.Helper()
	holder := testkit.Start(t, "claim-keep", dir)
	holder.Expect("claimed")
	holder.Kill()
	text := must(os.ReadFile(filepath.Join(dir, dispatchID+".lock")))(t)
	return string(text)
}

// foreignClaim is one that another program made.
func foreignClaim(t *testing.T, pid int, nonce string) string {
	t.Helper()
	host := must(os.Hostname())(t)
	text := must(json.Marshal(map[string]any{
		"gardenId": dispatchID, "pid": pid, "hostname": host, "createdAt": "2001-02-03T04:05:06.789Z",
		"nonce": nonce, "owner": dispatch.Owner, "lockPath": "/somewhere/" + dispatchID + ".lock",
	}))(t)
	return string(text) + "\n"
}

// TestDispatch_ManyReclaimersOneWinner: six processes find one dead claim at once,
// 1,500 times: another program's or one of ours, and beside it no marker, or what a
// reclaimer that died has left. Each time exactly one of them gets it, the lock file
// says which, and no marker stays.
func TestDispatch_ManyReclaimersOneWinner(t *testing.T) {
	const procs, rounds = 6, 1500
	dir := t.TempDir()
	path := filepath.Join(dir, dispatchID+".lock")
	marker := path + ".reclaim"
	ours := killedClaim(t, dir)
	kinds := []struct{ name, claim, marker string }{
		{"another program's", foreignClaim(t, noSuchPID, "f00"), "none"},
		{"ours", ours, "none"},
		{"another program's, empty marker", foreignClaim(t, noSuchPID, "f00"), ""},
		{"ours, marker of ours", ours, ours},
		{"another program's, marker of ours", foreignClaim(t, noSuchPID, "f00"), ours},
		{"ours, empty marker", ours, ""},
	}
	var reclaimers []*testkit.Child
	for range procs {
		c := testkit.Start(t, "claim-race", dir)
		reclaimers = append(reclaimers, c)
	}
	begun := time.Now()
	for round := range rounds {
		kind := kinds[round%len(kinds)]
		if kind.marker != "none" {
			writeWhole(t, marker, kind.marker)
			check(t, os.Chtimes(marker, longAgo, longAgo))
		}
		writeWhole(t, path, kind.claim)
		for _, c := range reclaimers {
			c.Order("claim")
		}
		var winners []*testkit.Child
		for _, c := range reclaimers {
			switch said := c.Answer(); {
			case strings.HasPrefix(said, "claimed "):
				winners = append(winners, c)
				text, err := os.ReadFile(path)
				var claim dispatch.Claim
				if err != nil || json.Unmarshal(text, &claim) != nil || "claimed "+claim.Nonce != said {
					t.Errorf("round %d, %s: one has %s; on disk is %s (%v)", round, kind.name, said, text, err)
				}
			case said != "conflict":
				t.Errorf("round %d, %s: %s", round, kind.name, said)
			}
		}
		if len(winners) != 1 {
			t.Fatalf("round %d, %s: %d winners", round, kind.name, len(winners))
		}
		if exists(marker) {
			t.Fatalf("round %d, %s: the marker is still there", round, kind.name)
		}
		if said := winners[0].Say("release"); said != "released <nil>" {
			t.Fatalf("round %d, %s: the winner's release: %s", round, kind.name, said)
		}
	}
	t.Logf("%d rounds of %d processes in %v", rounds, procs, time.Since(begun).Round(time.Millisecond))
}

// writeWhole makes a file appear with all that is in it.
func writeWhole(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path+".new", []byte(text), 0o600))
	check(t, os.Rename(path+".new", path))
}
