// Package tests holds what is tested from outside: the command and the library
// as real processes, killed at any moment, in containers, beside other programs.
package tests
