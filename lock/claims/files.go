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
	broken map[string]error // files that should be a claim on this node, and are not
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
		node, ok := strings.CutSuffix(entry.Name(), ".lock")
		if !ok || checkNode(node) != nil {
			continue
		}
		data, _, err := platform.ReadRegular(f.path(node), 64<<10)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var c Claim
		if err == nil {
			err = json.Unmarshal(data, &c)
		}
		if err == nil && (c.NodeID != node || c.Owner == "" || c.ExpiresAt.IsZero()) {
			err = errors.New("a field is missing, or of another node")
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
func (f *files) foreign(s *state) map[string]Claim {
	foreign := map[string]Claim{}
	for node, c := range f.claims {
		if _, ok := s.claims[node]; !ok && !s.isLeftover(c) {
			foreign[node] = c
		}
	}
	return foreign
}

// follow makes the files what the ledger says, except for others' claims.
func (f *files) follow(s *state) error {
	var errs []error
	for node, want := range s.claims {
		if have, ok := f.claims[node]; ok && have.equal(want) {
			continue
		}
		errs = append(errs, f.write(want))
	}
	for node, have := range f.claims {
		if _, ok := s.claims[node]; !ok && s.isLeftover(have) {
			if err := platform.Remove(f.path(node)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
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
