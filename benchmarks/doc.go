// Package benchmarks measures holdfast against the bare system calls that it
// can't do without. A time by itself says nothing on a noisy machine, so each
// benchmark runs the floor beside it, in turn, and reports the ratio.
package benchmarks
