// Package platform is holdfast's own mechanism, with no promise of compatibility: what the
// operating system can do about locks, and what it knows of files, processes and itself. It
// judges nothing; package lock decides which process may have a lock.
//
// Each topic has one file without a build tag, with the exported functions and their
// contracts, and a file for each kind of system with the unexported rest: _linux, _unix, _bsd
// (macOS among them), _windows, and _other for all that have none of their own. Where a kernel
// is like no other, the file has its name (_netbsd). On any other system the package does not
// compile.
//
// Linux is tested. With the tag portable, the package does without the _linux files of the
// topics file and kernel, so the files that the other systems share are tested, too. The rest
// of these is written from their manuals, built and vetted, and not tested.
package platform
