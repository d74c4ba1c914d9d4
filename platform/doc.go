// Package platform is holdfast's own mechanism, with no promise of compatibility: what the
// operating system can do about locks, and what it knows of files, processes and itself.
// It judges nothing; who may have a lock is decided in package lock.
//
// Each topic has one file without a build tag, with the exported functions and
// their contracts, and files per system (_linux, _darwin, _bsd, _windows,
// _other) with the unexported rest.
//
// Linux is tested. The other systems are written from their manuals, built and
// vetted, and not tested.
package platform
