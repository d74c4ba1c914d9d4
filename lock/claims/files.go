package claims

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/platform"
)

// files are the claims in Dir/locks.
type files struct {
	dir    string
	claims map[string]Claim
	broken map[string]error // by node: why its file is not a claim
	temps  []string         // of writers that died
}

func readFiles(dir string) (*files, error) {
	f := &files{dir: filepath.Join(dir, "locks"), claims: map[string]Claim{}, broken: map[string]error{}}
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	} else if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	for _, entry := range entries {
		name, temp := strings.CutSuffix(strings.TrimPrefix(entry.Name(), "."), platform.TempSuffix)
		node, ok := strings.CutSuffix(name, ".lock")
		if !ok || checkNode(node) != nil || temp != strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if temp {
			f.temps = append(f.temps, filepath.Join(f.dir, entry.Name()))
			continue
		}
		data, err := platform.ReadRegular(f.path(node), 64<<10)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var c Claim
		if err == nil {
			err = json.Unmarshal(data, &c)
		}
		switch {
		case err != nil:
		case c.NodeID != node, c.Owner == "", c.AcquiredAt.IsZero(), c.ExpiresAt.IsZero():
			err = errors.New("a field is missing, or of another node")
		case c.ExpiresAt.Before(c.AcquiredAt):
			err = errors.New("it expires before it was acquired")
		}
		if err != nil {
			f.broken[node] = fmt.Errorf("claims: %s is not a claim; remove it if nothing uses it: %w", f.path(node), err)
			continue
		}
		f.claims[node] = c
	}
	return f, nil
}

func (f *files) path(node string) string { return filepath.Join(f.dir, node+".lock") }

// foreign returns the claims of which the ledger knows nothing.
func (f *files) foreign(s *state, lasts func(Claim) bool) map[string]Claim {
	foreign := map[string]Claim{}
	for node, c := range f.claims {
		if _, ok := s.claims[node]; !ok && !s.isLeftover(c, lasts(c)) {
			foreign[node] = c
		}
	}
	return foreign
}

// follow makes the files what the ledger says, except for others' claims. It returns the
// errors of one node, or of all with "". The caller has the ledger's lock.
func (f *files) follow(s *state, node string, lasts func(Claim) bool) error {
	var errs []error
	failed := func(on string, err error) {
		if err != nil && (node == "" || node == on) {
			errs = append(errs, err)
		}
	}
	for _, temp := range f.temps {
		_ = platform.Remove(temp)
	}
	for on, want := range s.claims {
		if have, ok := f.claims[on]; !ok || !have.equal(want) {
			failed(on, f.write(want))
		}
	}
	for on, have := range f.claims {
		if _, ok := s.claims[on]; !ok && s.isLeftover(have, lasts(have)) {
			if err := platform.Remove(f.path(on)); !errors.Is(err, fs.ErrNotExist) {
				failed(on, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("claims: %w: %w", ErrFiles, err)
	}
	return nil
}

func (f *files) write(c Claim) error {
	if f.broken[c.NodeID] != nil {
		return f.broken[c.NodeID]
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.Mkdir(f.dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return platform.WriteDurably(f.path(c.NodeID), append(data, '\n'))
}
