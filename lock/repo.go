package lock

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// RepoLock serialises the writers of one repository's data. It is a File with the interface
// and the lock file of the agency command's own lock, to the letter (see FORMATS.md).
//
// That command's rules hold for its claims, a bare pid, created_at and cmd. It has had two:
//
//   - such a claim is stale when its pid is not alive, or when it is older than StaleAfter;
//   - with PIDAlone, which its newer versions do: when its pid is not alive, however old it is.
//
// By both, a file that holds no claim (it is empty, cut short, or garbage) is stale when it was
// written longer ago than StaleAfter. Here, a claim without created_at is none.
//
// Where the kernel has proof, the proof wins. A holder proven to be alive keeps the lock,
// whatever its age, and whatever IsPIDAlive says of its pid. One proven to be dead is taken
// over at once.
//
// The zero value works, relative to the working directory.
type RepoLock struct {
	// DataDir is the folder that has, or is to have, the folder "repos".
	DataDir string
	// StaleAfter is the age beyond which a claim that proves nothing, or a file that holds no
	// claim, is a dead holder's. 0 means DefaultStaleAfter; a negative value, that age proves
	// nothing of either.
	StaleAfter time.Duration
	// Now is the clock for what is written and for ages; nil means time.Now.
	Now func() time.Time
	// IsPIDAlive is asked about pids in claims that prove nothing; nil means
	// the system's own check. It must say true when it can't tell.
	IsPIDAlive func(pid int) bool
	// PIDAlone leaves StaleAfter to files that hold no claim: another program's claim is stale
	// when IsPIDAlive says so, and else it is held, at any age. The command's older versions,
	// beside this one, still go by age.
	PIDAlone bool
}

// NewRepoLock returns a RepoLock for a data folder with the defaults: StaleAfter
// two hours, for claims as well, time.Now, and the system's check on pids.
func NewRepoLock(dataDir string) RepoLock {
	return RepoLock{DataDir: dataDir, StaleAfter: DefaultStaleAfter, Now: time.Now, IsPIDAlive: pidAlive}
}

// Lock acquires the lock of a repository, ${DataDir}/repos/<repoID>/.lock, and returns the
// function that releases it. It does not wait: when somebody else has the lock, the error
// is an *ErrLocked. It makes folders that are missing. cmd is kept in the lock file for
// people, and may be empty.
//
// A second call of unlock returns nil. Its errors are those of FileHold.Release. The agency
// command's unlock is content to find no lock file, or removes whatever file is there. This
// one returns ErrLost then, and leaves the file alone.
func (l RepoLock) Lock(repoID string, cmd string) (unlock func() error, err error) {
	if err := checkName("repo id", repoID); err != nil {
		return nil, err
	}
	dir := filepath.Join(l.DataDir, "repos", repoID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, pathError("make folder for", dir, err)
	}
	file := File{
		Path:       filepath.Join(dir, ".lock"),
		Cmd:        cmd,
		StaleAfter: l.StaleAfter,
		repoID:     repoID,
		clock:      l.Now,
		pidAlive:   l.IsPIDAlive,
		pidAlone:   l.PIDAlone,
	}
	if file.StaleAfter == 0 {
		file.StaleAfter = DefaultStaleAfter
	}
	held, err := file.TryAcquire(context.Background())
	if err != nil {
		return nil, err
	}
	return held.Release, nil
}
