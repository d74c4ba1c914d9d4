package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/dispatch"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// lookAfterwards looks at what is left when all have been killed.
func (s *storm) lookAfterwards() {
	if s.board.broken.Load() > 0 {
		return
	}
	if s.asks(oracleCounters) {
		s.lookAtCounters()
	}
	if s.asks(oracleAtOnce) || s.asks(oracleFolder) {
		s.wantAllAtOnce()
	}
	if !engines[s.engine].files {
		return
	}
	if s.asks(oracleReports) {
		s.lookAtReports()
	}
	if s.asks(oracleFolder) {
		s.lookAtFolder()
	}
}

// lookAtCounters: no count that was reported is lost, and none is there that was not.
func (s *storm) lookAtCounters() {
	for i := range s.board.things {
		t := &s.board.things[i]
		counted, done := int(t.counter.Load()), int(t.done.Load())
		if counted < done || counted > done+s.unsure[i] {
			s.board.breaks("THE COUNTER of %s is %d; %d were reported, and %d killed in between", thingName(i), counted, done, s.unsure[i])
		}
	}
}

// wantAllAtOnce: every lock is had without waiting, and each permit.
func (s *storm) wantAllAtOnce() {
	ctx := context.Background()
	s.wantLocksAtOnce(ctx)
	if !engines[s.engine].files {
		return
	}
	limited, cancel := context.WithTimeout(ctx, max(s.patience, time.Second))
	defer cancel()
	if err := lock.Update(limited, updatedAt(s.address), func(old []byte) ([]byte, error) { return append(old, '\n'), nil }); err != nil {
		s.board.breaks("NOT AT ONCE: update: %v", err)
	}
	if _, err := (ledger.Ledger{Dir: s.address, Timeout: time.Second}).Append(ctx, []byte(`{"id":0}`)); err != nil {
		s.board.breaks("NOT AT ONCE: ledger: %v", err)
	}
	m := &claims.Manager{Dir: proofAt(s.address)}
	if _, err := m.Claim(ctx, "2", "the driver"); err != nil {
		s.board.breaks("NOT AT ONCE: claims: %v", err)
	}
	claim, err := dispatch.Locks{Dir: filepath.Join(s.address, "dispatch")}.Acquire(ctx, "garden")
	if err == nil {
		_, err = claim.Release()
	}
	if err != nil {
		s.board.breaks("NOT AT ONCE: dispatch: %v", err)
	}
}

func (s *storm) wantLocksAtOnce(ctx context.Context) {
	lockers := must(engines[s.engine].open(s.address))(s.T)
	for _, l := range lockers {
		if c, ok := l.(interface{ Close() }); ok {
			defer c.Close()
		}
		keys := []lock.Key{poolKey, leaderKey}
		for n := range chaosLocks {
			keys = append(keys, chaosKey(n))
		}
		for n := range chaosPermits {
			keys = append(keys, permitKey(1+n))
		}
		for _, key := range keys {
			held, err := lock.AcquireWithin(ctx, l, key, s.patience)
			if err == nil {
				err = held.Release()
			}
			if err != nil {
				s.board.breaks("NOT AT ONCE: %s: %v", key, err)
			}
		}
	}
}

// lookAtReports: what was reported done is on disk, once.
func (s *storm) lookAtReports() {
	text, err := os.ReadFile(updatedAt(s.address))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.board.breaks("reading what was updated: %v", err)
	}
	updates := map[uint64]int{}
	for _, line := range strings.Fields(string(text)) {
		id, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			s.board.breaks("AN UPDATE is half there: %q", line)
		}
		if updates[id]++; updates[id] > 1 {
			s.board.breaks("AN UPDATE is there twice: %d", id)
		}
	}
	for id := range s.board.of(reportUpdate) {
		if updates[id] == 0 {
			s.board.breaks("AN UPDATE is lost: %d", id)
		}
	}
	s.lookAtLedger()
	s.lookAtClaims()
}

// events are those of a ledger, read without the library. The first one is at 0.
func (s *storm) events(dir string, into func(i int, data []byte)) {
	entries, err := os.ReadDir(filepath.Join(dir, "ledger"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.board.breaks("reading a ledger: %v", err)
		}
		return
	}
	n := 0
	for _, e := range entries { // in the order of their names
		if !strings.HasPrefix(e.Name(), "event-") {
			continue
		}
		if n++; e.Name() != fmt.Sprintf("event-%06d.json", n) {
			s.board.breaks("AN EVENT is missing before %s", e.Name())
			return
		}
		data := must(os.ReadFile(filepath.Join(dir, "ledger", e.Name())))(s.T)
		into(n-1, data)
	}
}

// lookAtLedger: events are numbered without a gap, those of a batch follow one another, and
// all are there, or none.
func (s *storm) lookAtLedger() {
	var all []chaosEvent
	at := map[uint64]uint64{}
	s.events(s.address, func(i int, data []byte) {
		var e chaosEvent
		if err := json.Unmarshal(data, &e); err != nil {
			s.board.breaks("AN EVENT is half there: %q", data)
		}
		if at[e.ID] > 0 {
			s.board.breaks("AN EVENT is there twice: %d and %d", at[e.ID], i+1)
		}
		all = append(all, e)
		at[e.ID] = uint64(i) + 1
	})
	for i, e := range all {
		for k := range e.Count {
			if first := i - int(e.ID-e.First); first < 0 || first+k >= len(all) || all[first+k].ID != e.First+uint64(k) {
				s.board.breaks("A BATCH is not together: event %d is %+v", i+1, e)
				return
			}
		}
	}
	for id, sequence := range s.board.of(reportEvent) {
		if at[id] != sequence {
			s.board.breaks("AN EVENT is lost: %d, which was reported as number %d, is number %d", id, sequence, at[id])
		}
	}
}

// lookAtClaims: nobody has claimed what another had, and what was reported is written down.
func (s *storm) lookAtClaims() {
	owners, count := map[string]string{}, map[string]int{}
	s.events(proofAt(s.address), func(i int, data []byte) {
		var e struct {
			Type  string
			Node  string `json:"node_id"`
			Owner string
		}
		if err := json.Unmarshal(data, &e); err != nil {
			s.board.breaks("A CLAIM is half there: %q", data)
		}
		count[e.Type]++
		switch has := owners[e.Node]; {
		case e.Type == "lock_acquired" && (has == "" || has == e.Owner):
			owners[e.Node] = e.Owner
		case e.Type == "lock_released" && has == e.Owner:
			delete(owners, e.Node)
		default:
			s.board.breaks("A CLAIM beside another: event %d is %s; the node is of %q", i+1, data, has)
		}
	})
	for what, kind := range map[uint64]string{reportClaim: "lock_acquired", reportUnclaim: "lock_released"} {
		if reported := len(s.board.of(what)); count[kind] < reported {
			s.board.breaks("A CLAIM is lost: there are %d of %s; %d were reported", count[kind], kind, reported)
		}
	}
}

// lookAtFolder: there is nothing but what the documentation says, once each lock was had. A
// sibling that somebody has open stays until the lock is had again: a FUSE server closes the
// files of the killed some time later, and a look at a file is an instant of having it open.
func (s *storm) lookAtFolder() {
	odd := s.oddFiles()
	for tries := 0; len(odd) > 0 && tries < 100; tries++ {
		time.Sleep(10 * time.Millisecond)
		s.wantLocksAtOnce(context.Background())
		odd = s.oddFiles()
	}
	if len(odd) > 0 {
		s.board.breaks("LEFT BEHIND: %s", strings.Join(odd, ", "))
	}
}

func (s *storm) oddFiles() (odd []string) {
	check(s.T, filepath.WalkDir(s.address, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(s.address, path)
			if !slices.ContainsFunc(s.stays(), func(r *regexp.Regexp) bool { return r.MatchString(name) }) && !s.isUnmarked(path) {
				odd = append(odd, name)
			}
		}
		return err
	}))
	return odd
}

// isUnmarked reports whether a file is an empty one, in a sibling's place, that nothing shows to be
// holdfast's: the hand has put it there; or a process, killed at once, that sees the folder through
// FUSE, where siblings bear no mark.
func (s *storm) isUnmarked(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && (s.hand != noHand || len(s.ways) > 1) && strings.HasSuffix(path, ".flock") && info.Size() == 0 && info.Mode()&fs.ModeSticky == 0
}

// stays are the files that stay, by FORMATS.md.
func (s *storm) stays() []*regexp.Regexp {
	all := []string{
		`plain/(lock\d|pool|pool\.permit-\d|leader)\.flock`,     // siblings
		`keys/chaos/(lock1|pool\.permit-1|leader)\.lock\.flock`, // those with a fence
		`updated`, `updated\.lock\.flock`,
		`(proof/)?ledger/(event-\d{6}\.json|ledger\.lock\.flock|\.head|\.claims)`,
		`(proof/)?ledger/\.event-.*\.tmp`, // of a writer who died; once a day they are looked for
		`proof/locks/\d(\.\d)?\.lock`,
		`proof/locks/\.\d(\.\d)?\.lock\.holdfast-tmp`, // likewise, until the claim changes
		`others/\d+`, // another program's
	}
	if len(s.ways) > 1 { // of who was killed where the kernel is no proof
		all = append(all, `(plain|keys/chaos)/\w+(\.lock)?\.reclaim\.\w+`)
	}
	var stays []*regexp.Regexp
	for _, r := range all {
		stays = append(stays, regexp.MustCompile(`^`+r+`$`))
	}
	return stays
}
