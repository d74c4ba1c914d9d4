#!/bin/sh
# Runs the Go benchmarks of two commits in turn, and compares them by benchstat.
#
#   sh benchmarks/compare.sh BASE          the working tree against the commit BASE
#   sh benchmarks/compare.sh BASE NEW      the commit NEW against BASE
#
# Only ratios decide (the units x-...: to the bare system calls that ran in turn with
# them), as times by themselves differ from minute to minute on a shared machine.
#
# BENCH, COUNT and BENCHTIME in the environment change which benchmarks are run, how
# often (6) and for how long each time (500ms). Hand-offs want a machine that does
# nothing else; on others leave them out: BENCH="Uncontended|Ledger_Sync".
#
# Exit codes: 0 no worse, or not by more than 10 % in the geometric mean; 1 worse than
# that; 2 wrong use, or it could not be measured.
set -eu

benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
bench=${BENCH:-'Uncontended|Handoff$|Ledger_Sync'}
count=${COUNT:-6}
benchtime=${BENCHTIME:-500ms}

fail() {
	echo "compare.sh: $*" >&2
	exit 2
}
case $# in
1 | 2) ;;
*) fail "usage: sh benchmarks/compare.sh BASE [NEW]" ;;
esac
cd "$(dirname "$0")/.."
tmp=$(mktemp -d) || fail "no temporary folder"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 2' HUP INT TERM

# build NAME [COMMIT] makes the test binary of a commit, or of the working tree.
build() {
	from=.
	if [ $# = 2 ]; then
		git rev-parse --quiet --verify "$2^{commit}" >/dev/null || fail "no such commit: $2"
		from=$tmp/$1
		mkdir "$from"
		git archive "$2" | tar -x -C "$from" || fail "$2 can't be unpacked"
	fi
	(cd "$from/benchmarks" && go test -c -o "$tmp/$1.test" .) || fail "the benchmarks of ${2:-the working tree} don't build"
}
build base "$1"
build new ${2:+"$2"}

mkdir "$tmp/run"
cd "$tmp/run"
i=0
while [ "$i" -lt "$count" ]; do
	i=$((i + 1))
	for which in base new; do
		echo "compare.sh: round $i of $count, $which" >&2
		"$tmp/$which.test" -test.run '^$' -test.bench "$bench" -test.benchtime "$benchtime" -test.timeout 10m \
			>>"$tmp/$which.txt" || fail "the benchmarks of $which failed: $(tail -n 3 "$tmp/$which.txt")"
	done
done

go run "$benchstat" "$tmp/base.txt" "$tmp/new.txt" || fail "benchstat failed"
go run "$benchstat" -format csv "$tmp/base.txt" "$tmp/new.txt" >"$tmp/csv" 2>/dev/null || fail "benchstat failed"

# A table for each unit, headed ",UNIT,CI,UNIT,CI,vs base,P"; its last line is
# "geomean,A,,B,,+1.00%,", where the last is of the benchmarks that both have. The
# unit x-floor-calls is of bare calls alone.
awk -F, '
	$1 == "" && $6 == "vs base" { unit = $2 }
	$1 == "geomean" && unit ~ /^x-/ && unit != "x-floor-calls" && $6 ~ /%$/ {
		print unit ": " $6
		sum += log(1 + $6 / 100)
		n++
	}
	END {
		if (!n) {
			print "compare.sh: no ratio is in both" > "/dev/stderr"
			exit 2
		}
		mean = exp(sum / n)
		printf "geometric mean: %+.1f %%\n", (mean - 1) * 100
		exit mean > 1.10 ? 1 : 0
	}' "$tmp/csv"
