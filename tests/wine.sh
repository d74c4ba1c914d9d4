#!/bin/sh
# Runs the tests of the Windows builds with Wine, and holdfast.exe in real processes. What it
# prints at last is kept in tests/results/wine.txt.
#
#   sh tests/wine.sh [PACKAGE...]
#
# wine.txt, beside it, names what Wine can't do. A test that fails and is not there is a
# failure, and so is one that is there and passes.
#
# It needs, from Debian: wine, wine64, gcc-mingw-w64-x86-64-win32.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
list=$root/tests/wine.txt
[ $# -gt 0 ] || set -- platform lock lock/ledger lock/claims lock/dispatch lock/repolock cmd/holdfast/internal/command tests/windows

for need in go wine wineserver x86_64-w64-mingw32-gcc; do
	command -v $need >/dev/null || {
		echo "wine.sh: needs $need (apt-get install wine wine64 gcc-mingw-w64-x86-64-win32)" >&2
		exit 2
	}
done
# Wine syncs a disk at each turn, and a prefix takes 700 MB.
[ "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || export TMPDIR=/dev/shm
tmp=$(mktemp -d)
export WINEPREFIX="$tmp/prefix" WINEDEBUG=-all WINEDLLOVERRIDES='bcryptprimitives=n;mscoree,mshtml='
trap 'wineserver -k || :; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
wineboot -i >"$tmp/boot" 2>&1 || {
	cat "$tmp/boot" >&2
	exit 1
}
wineserver -w

# Wine 8 has no bcryptprimitives.dll, of which Go wants one function.
cat >"$tmp/prng.c" <<'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return SystemFunction036(data, size); }
END
x86_64-w64-mingw32-gcc -shared -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" "$tmp/prng.c" -ladvapi32

# os.RemoveAll asks for what Wine 8 lacks. Go has another way, for older systems.
file=$(go env GOROOT)/src/internal/syscall/windows/at_windows.go
sed 's/^var TestDeleteatFallback bool$/var TestDeleteatFallback = true/' "$file" >"$tmp/at_windows.go"
if cmp -s "$file" "$tmp/at_windows.go"; then
	echo "wine.sh: this Go has no TestDeleteatFallback in $file" >&2
	exit 1
fi
printf '{"Replace":{"%s":"%s"}}\n' "$file" "$tmp/at_windows.go" >"$tmp/overlay.json"

export GOOS=windows GOARCH=amd64 CGO_ENABLED=0
go build -o "$tmp/holdfast.exe" ./cmd/holdfast
HOLDFAST_EXE=$(winepath -w "$tmp/holdfast.exe" 2>/dev/null)
export HOLDFAST_EXE
for package; do
	(cd "$package" && go test -c -overlay "$tmp/overlay.json" -o "$tmp/test.exe" .)
	mv "$tmp/test.exe" "$tmp/$(echo "$package" | tr / -).exe"
done

# listed KIND PACKAGE gives the tests that wine.txt has of it.
listed() { awk -v kind="$1" -v package="$2" '$1 == kind && $2 == package { sub(":$", "", $3); print $3 }' "$list"; }

echo "$(wine --version), $(go env GOVERSION), $(uname -sr), $(date -u +%Y-%m-%d)"
bad=0
for package; do
	out=$tmp/out
	skip=$(listed not-run "$package" | paste -sd '|' -)
	begun=$(date +%s)
	(cd "$package" && wine "$tmp/$(echo "$package" | tr / -).exe" -test.v -test.timeout 1h \
		-test.skip "^(${skip:-none})\$" 2>&1) | tr -d '\r' >"$out" || :
	count() { grep -ac "^--- $1:" "$out" || :; }
	echo "$package: $(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped, $(($(date +%s) - begun)) s"
	sed -n 's/^--- FAIL: \([^ ]*\) .*/\1/p' "$out" | sort -u >"$tmp/failed"
	sed -n 's/^--- PASS: \([^ ]*\) .*/\1/p' "$out" | sort -u >"$tmp/passed"
	listed fails "$package" | sort -u >"$tmp/expected"
	comm -23 "$tmp/failed" "$tmp/expected" >"$tmp/unexpected"
	comm -12 "$tmp/passed" "$tmp/expected" >"$tmp/surprising"
	if ! tail -n 1 "$out" | grep -qE '^(PASS|FAIL)$'; then
		echo "  it did not come to its end:"
		tail -n 40 "$out" >&2
		bad=1
	fi
	while read -r test; do
		echo "  UNEXPECTED failure: $test"
		sed -n "/^=== RUN   $test\$/,/^--- FAIL: $test /p" "$out" >&2
		bad=1
	done <"$tmp/unexpected"
	while read -r test; do
		echo "  UNEXPECTED success: $test (take it out of tests/wine.txt)"
		bad=1
	done <"$tmp/surprising"
	grep -E "^(fails|not-run) +$package +" "$list" | sed -E 's/^([^ ]+) +[^ ]+ +/  \1 /' || :
done
exit $bad
