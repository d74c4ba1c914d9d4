#!/bin/sh
# Runs every fuzz target of the root module, one after the other, each for a while.
#
#   sh tests/fuzz.sh [TIME] [NAME]
#
# TIME is of each target; without it 1s, half a minute for all. NAME is a part of the names
# of those to run. What makes a target fail is written to its package's testdata/fuzz, to be
# kept: every go test runs it from then on. With TIME, what is found on the way stays in Go's
# cache, and the next run with TIME goes on from there.
set -eu
cd "$(dirname "$0")/.."

log=$(mktemp)
bin=$(mktemp -d)
trap 'rm -rf "$log" "$bin"' EXIT
targets=0 failed=
for package in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u | grep -v '^./\(tests\|benchmarks\|lock/pg\)'); do
	names=$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$package"/*_test.go | grep -F -e "${2:-}" || true)
	[ -n "$names" ] || continue
	# Built once, and not once for each target.
	go test -c -fuzz . -o "$bin/test" "$package"
	for name in $names; do
		targets=$((targets + 1))
		cache=$bin/found
		[ $# = 0 ] || cache=$(go env GOCACHE)/fuzz/$(go list "$package")
		printf '%-12s %-24s ' "${package#./}" "$name"
		if (cd "$package" && "$bin/test" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "${1:-1s}" \
			-test.fuzzminimizetime 5x -test.fuzzcachedir "$cache" >"$log" 2>&1); then
			tail -n 2 "$log" | sed -n 's/.*\(execs: [0-9]*\).*/\1/p; s/.*baseline coverage: /corpus alone: /p' | tail -n 1
		elif [ "$(grep -cv '^fuzz: elapsed\|^--- FAIL\|^ *context deadline exceeded$\|^FAIL$\|^exit status' "$log")" = 0 ]; then
			echo 'ended by the time' # Go before 1.27 takes that for a failure now and then: go.dev/issue/75804
		else
			echo FAILED
			cat "$log"
			failed="$failed $name"
		fi
	done
done
if [ -n "$failed" ]; then
	echo "failed:$failed"
	exit 1
fi
echo "$targets targets, none failed"
