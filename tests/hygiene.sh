#!/bin/sh
# Runs the suite of the root module again and again, in ways in which a machine can be
# unkind: under load, with one processor for Go, as if the machine had been up for a minute,
# with the race detector. Each package's tests fail by themselves if they leave anything
# behind (internal/testkit). The outcome is added to tests/results/hygiene.txt.
#
#   sh tests/hygiene.sh [TIMES] [WAY...] [PACKAGE...]
#
# TIMES is how often in each way: 20 without it. A WAY is plain, processor (one for Go), load,
# boot (a minute ago), race, or together: under load, one processor, just booted; all of them
# without it, which takes hours. As root: a time namespace has the machine just booted.
set -u
cd "$(dirname "$0")/.."

times=20 ways= packages=
for word; do
	case $word in
	[0-9]*) times=$word ;;
	./*) packages="$packages $word" ;;
	plain | processor | load | boot | race | together) ways="$ways $word" ;;
	*)
		echo "hygiene.sh: unknown way: $word" >&2
		exit 2
		;;
	esac
done
: "${ways:=plain processor load boot race together}"
: "${packages:=./...}"
log=$(mktemp)
loads=
begin() { # two programs for each processor
	for _ in $(seq $(($(getconf _NPROCESSORS_ONLN) * 2))); do
		sh -c 'while :; do :; done' &
		loads="$loads $!"
	done
}
stop() { # ends them
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
note "== $(date -u +%FT%TZ), $(git rev-parse --short HEAD), $(uname -sr), $(getconf _NPROCESSORS_ONLN) processors, uid $(id -u): ${packages# }"
bad=0
suite() { # NAME COMMAND...: runs a command so often
	name=$1
	shift
	failed=0 n=0
	while [ "$n" -lt "$times" ]; do
		n=$((n + 1))
		if ! "$@" >"$log" 2>&1; then
			failed=$((failed + 1))
			cat "$log" >&2
			grep -e '^ *--- FAIL' -e '^FAIL' -e '^panic' "$log" | tee -a tests/results/hygiene.txt
		fi
	done
	bad=$((bad + failed))
	note "$name: $failed of $n failed"
}

booted() { # COMMAND...: a minute after boot, at each run anew
	unshare --time --boottime "$((60 - $(cut -d. -f1 /proc/uptime)))" "$@"
}
for way in $ways; do
	case $way in
	boot | together) booted true 2>/dev/null || { note "$way: not run, needs root, to make a time namespace"; continue; } ;;
	race) command -v gcc >/dev/null 2>&1 || { note 'race: not run, needs gcc, to link the race detector'; continue; } ;;
	esac
	# shellcheck disable=SC2086 # words
	case $way in
	plain) suite plain go test -count=1 $packages ;;
	processor) suite 'GOMAXPROCS=1' env GOMAXPROCS=1 go test -count=1 $packages ;;
	load) begin && suite 'under load' go test -count=1 $packages ;;
	boot) suite 'a minute after boot' booted go test -count=1 $packages ;;
	race) suite 'with -race' go test -count=1 -race $packages ;;
	together) begin && suite 'under load, GOMAXPROCS=1, a minute after boot' booted env GOMAXPROCS=1 go test -p 2 -count=1 $packages ;;
	esac
	stop
done
[ "$bad" = 0 ]
