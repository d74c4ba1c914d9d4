package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// PrefixOf returns the Prefix of the ledger in dir, as the names of its events show it; ""
// if there are no events yet, or no ledger. If the events have several prefixes, the error
// matches ErrPrefix.
func PrefixOf(dir string) (string, error) {
	l := Ledger{Dir: dir}
	if err := l.check(); err != nil {
		return "", err
	}
	numbers := Ledger{Dir: dir, Prefix: NoPrefix}
	events, err := l.exists(1)
	if err != nil {
		return "", err
	}
	bare, err := numbers.exists(1)
	if err != nil {
		return "", err
	}
	var all []string
	switch { // the default is rare
	case events && bare:
		all = []string{DefaultPrefix, NoPrefix}
	case events:
		return DefaultPrefix, nil
	case bare:
		return NoPrefix, nil
	default:
		c, err := l.list()
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		} else if err != nil {
			return "", err
		}
		all = prefixes(c.aliens)
		if c.head > 0 {
			all = append(all, DefaultPrefix)
		}
	}
	switch len(all) {
	case 0:
		return "", nil
	case 1:
		return all[0], nil
	}
	return "", fmt.Errorf("ledger: %s has events of several prefixes: %s; say which are meant: %w", l.folder(), quoted(all), ErrPrefix)
}

const digits = "0123456789"

// prefixes returns the prefixes of those files that are events, in order. Digits at the end
// of a prefix may belong to the number. They do if there is a first event without them.
func prefixes(names []string) []string {
	const first = "000001.json"
	found, others := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		if prefix, ok := strings.CutSuffix(name, first); ok {
			found[prefix] = true
		}
		text, ok := strings.CutSuffix(name, ".json")
		if prefix := strings.TrimRight(text, digits); ok && len(text)-len(prefix) >= 6 {
			others[prefix] = true
		}
	}
	if len(found) == 0 {
		found = others
	}
	var all []string
	for _, prefix := range slices.Sorted(maps.Keys(found)) {
		switch less := strings.TrimRight(prefix, digits); {
		case prefix == "":
			all = append(all, NoPrefix)
		case less == prefix, !found[less]: // else 1000001.json is number 1000001
			all = append(all, prefix)
		}
	}
	return all
}

// alone returns an error if the folder has no events of ours, but events of another prefix:
// two ledgers in one folder would be taken for each other's damage.
func (l Ledger) alone(c contents) error {
	if all := prefixes(c.aliens); c.head == 0 && len(all) > 0 {
		return fmt.Errorf("ledger: the events in %s begin with %s, and none with %q: use that prefix, or another folder: %w",
			l.folder(), quoted(all), l.prefix(), ErrPrefix)
	}
	return nil
}

// anything returns alone's error to a reader that has found no further event.
func (l Ledger) anything() error {
	if there, err := l.exists(1); there || err != nil {
		return err
	}
	if _, _, err := l.head(); errors.Is(err, ErrPrefix) {
		return err
	}
	return nil // empty, or damaged, which has been told
}

func quoted(prefixes []string) string {
	var all []string
	for _, prefix := range prefixes {
		all = append(all, fmt.Sprintf("%q", strings.TrimPrefix(prefix, NoPrefix)))
	}
	return strings.Join(all, " and ")
}
