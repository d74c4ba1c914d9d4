// Package platform is holdfast's own mechanism, with no promise of compatibility: what the
// operating system can do about locks, and what it knows of files, processes and itself.
// It judges nothing; who may have a lock is decided in package lock.
//
// Each topic has one file without a build tag, with the exported functions and
// their contracts, and a file for each kind of system with the unexported rest: _linux,
// _unix, _bsd (macOS among them), _windows, and _other for all that have none of their
// own. Where a kernel is like no other, the file has its name (_netbsd, _plan9).
//
// Linux is tested; and with the tag portable, which has it do without the _linux files
// of the topics file and kernel, so are those that the other systems share. The rest of
// these is written from their manuals, built and vetted, and not tested.
package platform
