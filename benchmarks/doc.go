// Package benchmarks measures holdfast against the bare system calls that it
// can't do without. A time by itself says nothing on a noisy machine, so each
// benchmark runs the floor beside it, in turn, and reports the ratio.
//
// run.sh measures it beside other libraries and tools, and writes results/; the
// program is cmd/bench. compare.sh compares the benchmarks of two commits.
package benchmarks
