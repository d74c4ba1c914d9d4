#!/bin/sh
# Measures holdfast at two commits beside each other, in turn, with the bare system calls
# that it can't do without, and says how much slower or faster it has become.
#
#   sh benchmarks/compare.sh BASE          the working tree against the commit BASE
#   sh benchmarks/compare.sh BASE NEW      the commit NEW against BASE
#
# It takes half a minute. Hand-offs want a machine that does nothing else; on others leave
# them out, ONLY=uncontended. What else can be compared: ONLY=kill,reclaim.
#
# Exit codes: 0 no worse, or not by more than 10 % in the geometric mean; 1 worse than
# that; 2 wrong use, or it could not be measured.
set -eu

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

# build NAME [COMMIT] makes the program of a commit, or of the working tree.
build() {
	from=.
	if [ $# = 2 ]; then
		git rev-parse --quiet --verify "$2^{commit}" >/dev/null || fail "no such commit: $2"
		from=$tmp/$1.tree
		mkdir "$from"
		git archive "$2" | tar -x -C "$from" || fail "$2 can't be unpacked"
	fi
	(cd "$from/benchmarks" && go build -o "$tmp/$1" ./cmd/bench) || fail "the benchmarks of ${2:-the working tree} don't build"
}
build base "$1"
build new ${2:+"$2"}
"$tmp/new" -base "$tmp/base" ${ONLY:+-only "$ONLY"}
