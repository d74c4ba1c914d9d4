package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

func (words *words) who(h *evidence.Claim) string {
	if h == nil {
		return words.nobody
	}
	text := words.process + " " + strconv.Itoa(h.PID)
	if h.Hostname != "" {
		text += " " + words.from + " " + visible(h.Hostname)
	}
	if h.User != "" {
		text += ", user " + visible(shorten(h.User, 40))
	}
	if h.Mode != "" {
		text += ", " + visible(h.Mode)
	}
	if h.OwnerPID != 0 {
		text += ", session of pid " + strconv.Itoa(h.OwnerPID)
	}
	if h.Cmd != "" {
		text += ": " + visible(shorten(h.Cmd, 300))
	}
	return text
}

// describe writes what is known of a lock, and what to do about it: the holder, since when,
// why it is believed to be alive or dead, and what next.
func (words *words) describe(w io.Writer, s lock.Status) {
	words.describeWith(w, s, words.advice(s))
}

// describeWith is describe with another answer to what next.
func (words *words) describeWith(w io.Writer, s lock.Status, next []string) {
	line := func(name, text string) { line(w, name, text) }
	if s.Evidence == evidencePermits { // the holders are told below
		next = []string{"wait for those who have them: the lock is free when all are given back"}
	} else if s.State != evidence.Free {
		line(words.holder(s))
		if s.Gone != nil {
			line("since", moment(s.Gone.CreatedAt))
		}
		if s.Info != nil && len(s.Processes) <= 1 {
			line("since", moment(s.Info.CreatedAt))
			if s.Info.Dir != "" {
				line("in", visible(shorten(s.Info.Dir, 300)))
			}
		}
		if s.NotPermitted && s.Evidence != evidence.NotPermitted {
			line("claim", "not permitted to read it")
		}
		if s.Note != "" {
			line("note", noted(s.Note, s.NotedAt))
		}
	} else if p := s.Last; p != nil {
		line("last", words.who(&p.Info))
		line("ended", ended(p))
		if p.Note != "" {
			line("note", noted(p.Note, p.NotedAt))
		}
	}
	if s.Fence != 0 {
		line("fence", fenced(s.Fence))
	}
	why := map[evidence.State]string{
		evidence.Free: "because", evidence.Held: "alive", evidence.Dead: "dead", evidence.Unknown: "unclear",
	}
	line(why[s.State], visible(string(s.Evidence)))
	for i, text := range next {
		line([]string{"next", ""}[min(i, 1)], text)
	}
	if len(s.Waiters) > 0 {
		line("waiting", fmt.Sprintf("%d: %s", len(s.Waiters), words.processes(s.Waiters)))
	}
}

// holder describes the holder of a lock that is not free.
func (words *words) holder(s lock.Status) (what, text string) {
	switch {
	case s.Gone != nil:
		return "holder", gone(s)
	case s.Shared && len(s.Processes) > 0:
		return "readers", fmt.Sprintf("%d: %s", len(s.Processes), words.processes(s.Processes))
	case s.Info == nil && len(s.Processes) > 0:
		return "holder", words.processes(s.Processes) + words.byList
	case s.NotPermitted:
		return "holder", "not permitted to read who it is"
	}
	return "holder", words.who(s.Info)
}

// line writes one thing that is known of a lock.
func line(w io.Writer, name, text string) { fmt.Fprintf(w, "  %-9s %s\n", name, text) }

func moment(t time.Time) string {
	return fmt.Sprintf("%s (%s)", t.Local().Format("2006-01-02 15:04:05 -0700"), ago(time.Since(t)))
}

// noted shows a note, and how old it is.
func noted(text string, at time.Time) string {
	return fmt.Sprintf("%s (%s)", visible(shorten(text, 300)), ago(time.Since(at)))
}

// fenced shows the last fence.
func fenced(last int64) string {
	text := strconv.FormatInt(last, 10)
	if _, err := engine.NextFence(last, time.Now()); err != nil {
		text += ", which is out of all reason; whoever asks for the next one is told how to begin anew"
	}
	return text
}

// ended says how the last holder of a free lock ended.
func ended(p *lock.Predecessor) string {
	text := visible(string(p.How))
	switch {
	case p.How == lock.EndUnknown:
		text = "not known how: its lock file is gone, and it left no word"
	case !p.Ended.IsZero():
		text += " " + moment(p.Ended)
	}
	if p.Evidence != "" {
		text += ": " + visible(string(p.Evidence))
	}
	return text
}

// gone names a holder that has gone, and the processes that still have the lock.
func gone(s lock.Status) string {
	holder := "pid " + strconv.Itoa(s.Gone.PID)
	if s.Gone.Cmd != "" {
		holder += ", " + visible(shorten(s.Gone.Cmd, 300))
	}
	if len(s.Processes) == 0 {
		return fmt.Sprintf("(%s) has gone; processes that it started still have the lock, and can't be seen from here", holder)
	}
	names := strings.ReplaceAll(fileWords.processes(s.Processes), "pid ", "")
	if len(s.Processes) == 1 {
		return fmt.Sprintf("(%s) has gone; its process %s still has the lock", holder, names)
	}
	return fmt.Sprintf("(%s) has gone; its processes %s still have the lock", holder, names)
}

// maxNamed is how many processes a line names.
const maxNamed = 10

// processes names holders, or waiters and for how long they have waited.
func (words *words) processes(all []lock.Process) string {
	var names []string
	for _, p := range all[:min(len(all), maxNamed)] {
		name := words.process + " not known"
		if p.PID > 0 {
			name = words.process + " " + strconv.Itoa(p.PID)
		}
		switch {
		case p.Cmd != "" && p.Stopped:
			name += " (" + visible(p.Cmd) + ", stopped)"
		case p.Cmd != "":
			name += " (" + visible(p.Cmd) + ")"
		case p.Stopped:
			name += " (stopped)"
		}
		if !p.Since.IsZero() {
			name += " for " + ago(time.Since(p.Since))
		}
		names = append(names, name)
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// advice says what a person can do about a lock file.
func advice(s lock.Status) []string {
	switch {
	case s.State == evidence.Free:
		return nil
	case s.State == evidence.Dead:
		return []string{"nothing needs to be done: whoever acquires the lock next takes it over, if the file can be removed"}
	case s.Evidence == evidence.BeingReclaimed:
		return []string{"wait a moment, and look again; if no process is at work on the lock, remove the marker:", "  " + s.Path + ".reclaim"}
	case s.State == evidence.Held && len(s.Processes) == 1 && s.Processes[0].Stopped:
		return []string{fmt.Sprintf("have it go on (kill -CONT %d), or end it: the lock is free the moment it is gone", s.Processes[0].PID)}
	case s.Gone != nil && len(s.Processes) > 1:
		return []string{"wait for them, or end them: the lock is free the moment the last one has gone"}
	case s.State == evidence.Held && s.Shared && len(s.Processes) != 1:
		return []string{"wait for them: the lock is free when the last reader has left"}
	case s.State == evidence.Held && s.Info == nil && len(s.Processes) == 0:
		return []string{"wait for it: the lock is free the moment its holder is gone"}
	case s.State == evidence.Held && releaseCall(s) != "":
		return []string{"wait for it, or end the session: the lock is free the moment its owner is gone, or by", "  " + releaseCall(s)}
	case s.State == evidence.Held:
		return []string{"wait for it, or end that process: the lock is free the moment it is gone"}
	case s.Evidence == evidence.NotALockFile:
		return []string{"what lies at that path is not holdfast's to remove; if nothing uses it, move it away"}
	case s.Evidence == evidence.NotPermitted:
		return []string{"ask who owns the file, or root"}
	case s.Evidence == evidence.Leased:
		return []string{"wait for the process that has the lease, or end it"}
	}
	if force := forceCommand(s); force != "" {
		return []string{"if you know that this holder is gone:", "  " + force}
	}
	return []string{"if you know that its holder is gone, and nothing else uses the file, remove it by hand"}
}

// insteadOfWaiting says what a person can do about a lock that a process above has: to wait for
// it would be in vain.
func insteadOfWaiting(s lock.Status) []string {
	if s.Info == nil || s.Info.OwnerPID == 0 {
		return []string{"take another lock, or none: that process has this one while this command lasts"}
	}
	next := []string{"end the session first, or go on under it without a lock"}
	if command := releaseCall(s); command != "" {
		next = append(next, "  "+command)
	}
	return next
}

// forceCommand is the call that would break this lock for certain; "" if there is
// none.
func forceCommand(s lock.Status) string {
	if s.Info == nil || s.Info.Nonce == "" || s.Evidence == evidence.KernelLockHeld {
		return ""
	}
	nonce, ok := shellWord(s.Info.Nonce)
	path, ok2 := shellWord(s.Path)
	if !ok || !ok2 {
		return ""
	}
	return "holdfast break --force " + nonce + " " + path
}

// releaseCall is the call that would end this session; "" if it is none.
func releaseCall(s lock.Status) string {
	if s.Info == nil || s.Info.OwnerPID == 0 || !isNonce(s.Info.Nonce) {
		return ""
	}
	path, ok := shellWord(s.Path)
	if !ok {
		return ""
	}
	return "holdfast release " + path + " " + s.Info.Nonce
}
