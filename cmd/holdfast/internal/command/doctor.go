package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"text/tabwriter"

	"github.com/holdfast-go/holdfast/platform"
	"github.com/spf13/cobra"
)

// verdict is what a check found.
type verdict string

const (
	good verdict = "ok"   // as full proof wants it
	weak verdict = "weak" // holdfast works without it, with less proof
	bad  verdict = "bad"  // holdfast can't work here
)

// check is one thing that was tried, or looked up.
type check struct {
	Name   string  `json:"name"`
	Result verdict `json:"result"`
	Detail string  `json:"detail"`
}

// report is all that doctor finds out about a folder. With --json it is the output,
// so its keys are part of the interface.
type report struct {
	Path       string        `json:"path"`
	Mode       mode          `json:"mode"`
	Meaning    string        `json:"meaning"`
	Filesystem fsReport      `json:"filesystem"`
	Process    processReport `json:"process"`
	BootID     string        `json:"boot_id,omitempty"`
	Checks     []check       `json:"checks"`
}

type fsReport struct {
	Kind    string `json:"kind"`
	Trusted bool   `json:"trusted"`
}

type processReport struct {
	PID           int    `json:"pid"`
	PIDFD         uint64 `json:"pidfd,omitempty"`
	Start         uint64 `json:"start,omitempty"`
	PIDNamespace  uint64 `json:"pid_ns,omitempty"`
	TimeNamespace uint64 `json:"time_ns,omitempty"`
}

func (r *report) add(name string, v verdict, detail string) {
	r.Checks = append(r.Checks, check{name, v, detail})
}

func (r *report) worst() verdict {
	worst := good
	for _, c := range r.Checks {
		if c.Result == bad || worst == good {
			worst = c.Result
		}
	}
	return worst
}

// doctorCommand checks how far locks in a folder can be trusted.
func (a *app) doctorCommand(parent *cobra.Command) {
	var asJSON *bool
	c := a.command(parent, "doctor", func(_ *cobra.Command, args []string) (int, error) {
		dir, err := oneOf(args, "DIR", ".")
		if err == nil {
			dir, err = folder(dir)
		}
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return 0, err
		}
		// An interruption cleans up, too: nothing is to be left behind.
		ctx, stop := signal.NotifyContext(context.Background(), caughtSignals()...)
		defer stop()
		r, err := examine(ctx, dir)
		if err != nil {
			return 0, err
		}
		if *asJSON {
			return modes[r.Mode].code, writeJSON(a.stdout, r)
		}
		return modes[r.Mode].code, a.showReport(r)
	})
	asJSON = jsonFlag(c)
}

func examine(ctx context.Context, dir string) (*report, error) {
	r := &report{Path: dir}
	fsys, err := platform.FilesystemOf(dir)
	if err != nil {
		return nil, err
	}
	r.checkFilesystem(fsys)

	// Everything happens in a folder of our own (mode 0700), where it can't meet anybody's
	// lock.
	scratch, err := os.MkdirTemp(dir, ".holdfast-doctor-")
	if err != nil {
		r.add("permissions", bad, "no file can be created: "+oneLine(err))
	} else {
		r.checkFiles(scratch)
		r.checkKernelLock(ctx, filepath.Join(scratch, "probe.flock"))
		if err := os.RemoveAll(scratch); err != nil {
			r.add("clean-up", bad, "left behind: "+oneLine(err))
		}
	}
	r.checkIdentity()
	// Checks that were cut short must not be taken for findings.
	if ctx.Err() != nil {
		return nil, fmt.Errorf("examining %s: %w", dir, context.Cause(ctx))
	}
	r.Mode = r.decide()
	r.Meaning = modes[r.Mode].meaning
	return r, nil
}

func (r *report) checkFilesystem(fsys platform.Filesystem) {
	r.Filesystem = fsReport{fsys.Kind, fsys.Trusted}
	if fsys.Trusted {
		r.add("filesystem", good, fsys.Kind+": local; no other kernel grants its locks")
		return
	}
	r.add("filesystem", weak, fsys.Kind+": not known to be local; another machine may grant, or hold, the same locks")
}

// checkIdentity looks up what claims say of their process. What is missing here weakens
// only the judgement on claims for which no kernel lock stands. A kernel lock is proof
// enough.
func (r *report) checkIdentity() {
	p := platform.Self()
	r.Process = processReport{p.PID, p.PIDFD, p.Start, p.PIDNamespace, p.TimeNamespace}
	detail := fmt.Sprintf("pid %d", p.PID)
	for _, f := range []struct {
		name  string
		value uint64
	}{{"start", p.Start}, {"pidfd", p.PIDFD}, {"pid namespace", p.PIDNamespace}, {"time namespace", p.TimeNamespace}} {
		if f.value == 0 {
			detail += ", no " + f.name
		} else {
			detail += fmt.Sprintf(", %s %d", f.name, f.value)
		}
	}
	if p.Start == 0 && p.PIDFD == 0 {
		r.add("process", weak, detail+": a pid that was used again can't be told from the holder's")
	} else {
		r.add("process", good, detail)
	}

	host := platform.ThisHost().Name
	detail = fmt.Sprintf("%q: with a pid, all that is known of a program which knows only O_EXCL; containers that share a folder want one each", host)
	if host == "" || host == "localhost" {
		r.add("host name", weak, detail)
	} else {
		r.add("host name", good, detail)
	}

	// A boot id tells a pid of this boot from one of an earlier boot.
	r.BootID = visible(platform.ThisHost().BootID)
	if r.BootID == "" {
		r.add("boot", weak, "this system does not tell one boot from the next; a holder that died with the machine may look alive")
	} else {
		r.add("boot", good, "boot id "+r.BootID)
	}
	if diesWithUs {
		r.add("command", good, "the command of \"holdfast run\" is killed when holdfast is")
	} else {
		r.add("command", weak, "the command of \"holdfast run\" goes on when holdfast is killed with SIGKILL; use the fence")
	}
}

func (a *app) showReport(r *report) error {
	fmt.Fprintln(a.stdout, visible(r.Path))
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", c.Result, c.Name, c.Detail)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "mode: %s\n%s\n", modes[r.Mode].title, r.Meaning)
	return err
}
