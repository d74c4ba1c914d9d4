//go:build linux

package main

import (
	"errors"
	"fmt"
	"math"
)

// compared is measured where nothing else is asked for. Others that can be are kill and
// reclaim: in these, too, holdfast is another process, which another build of this program
// can be as well.
const compared = "uncontended,handoff"

const baseName = "holdfast at the base"

// withBase are holdfast, that of another build, and what both are measured against.
func withBase(build string) []*peer {
	base := *peerNamed(oursName)
	base.Name, base.build, base.module = baseName, build, ""
	return []*peer{peerNamed(floorName), peerNamed(oursName), &base}
}

// errSlower means that holdfast takes more than a tenth longer than at the base.
var errSlower = errors.New("slower than at the base")

// compare says how holdfast stands to that of the base. The error is errSlower when it is
// worse than noise in the geometric mean of all settings.
func compare(r *Results) error {
	sum, n := 0.0, 0
	for _, m := range []struct {
		name string
		all  []Figure
	}{{"acquire, release", r.Uncontended}, {"hand-off", r.Handoff}, {"hand-off after SIGKILL", r.AfterKill}, {"lock of the dead", r.Reclaim}} {
		for _, base := range m.all {
			for _, ours := range m.all {
				if base.Peer != baseName || ours.Peer != oursName || ours.Setting != base.Setting || base.N == 0 || ours.N == 0 {
					continue
				}
				ratio := ours.Median / base.Median
				fmt.Printf("%-24s %-6s %10s (%s the floor), was %10s: %+.1f %%\n", m.name, ours.Setting,
					duration(ours.Median), times(ours.Ratio), duration(base.Median), (ratio-1)*100)
				sum += math.Log(ratio)
				n++
			}
		}
	}
	if n == 0 {
		return errors.New("nothing could be compared")
	}
	mean := math.Exp(sum / float64(n))
	fmt.Printf("geometric mean: %+.1f %%\n", (mean-1)*100)
	if mean > 1.10 {
		return errSlower
	}
	return nil
}
