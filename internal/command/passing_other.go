//go:build !linux

package command

// passing: nobody has tried how to see another process's arguments here.
func passing(int) string { return "" }
