#!/bin/sh
# Runs the suite of the core packages again and again, in ways in which a machine can be
# unkind: under load, with one processor for Go, as if the machine had been up for a minute,
# with the race detector. Each package's tests fail by themselves if they leave anything
# behind (internal/testkit). The outcome is added to tests/results/hygiene.txt.
#
#   sh tests/hygiene.sh [TIMES] [PACKAGE...]
#
# TIMES is how often in each way: 20 without it, which takes hours. As root: a time namespace
# has the machine just booted.
set -u
cd "$(dirname "$0")/.."

times=${1:-20}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- ./platform ./lock ./lock/ledger ./lock/claims ./lock/dispatch ./internal/command
log=$(mktemp)
loads=
stop() { # ends the load
	for pid in $loads; do
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	loads=
}
trap 'stop; rm -f "$log"' EXIT
trap 'exit 130' INT TERM

mkdir -p tests/results
note() { echo "$@" | tee -a tests/results/hygiene.txt; }
note "== $(date -u +%FT%TZ), $(git rev-parse --short HEAD), $(uname -sr), $(getconf _NPROCESSORS_ONLN) processors, uid $(id -u): $*"
bad=0
suite() { # NAME COMMAND...: runs a command so often
	name=$1
	shift
	failed=0 n=0
	while [ "$n" -lt "$times" ]; do
		n=$((n + 1))
		if ! "$@" >"$log" 2>&1; then
			failed=$((failed + 1))
			grep -e '^ *--- FAIL' -e '^FAIL' -e '^panic' "$log" | tee -a tests/results/hygiene.txt
		fi
	done
	bad=$((bad + failed))
	note "$name: $failed of $n failed"
}

suite plain go test -count=1 "$@"
suite 'GOMAXPROCS=1' env GOMAXPROCS=1 go test -count=1 "$@"
for _ in 1 2 3 4; do
	sh -c 'while :; do :; done' &
	loads="$loads $!"
done
suite 'under load' go test -count=1 "$@"
stop
uptime=$(cut -d. -f1 /proc/uptime)
if unshare --time --boottime 0 true 2>/dev/null; then
	suite 'a minute after boot' unshare --time --boottime "$((60 - uptime))" go test -count=1 "$@"
else
	note 'a minute after boot: not run, needs root, to make a time namespace'
fi
if command -v gcc >/dev/null 2>&1; then
	suite 'with -race' go test -count=1 -race "$@"
else
	note 'with -race: not run, needs gcc, to link the race detector'
fi
[ "$bad" = 0 ]
