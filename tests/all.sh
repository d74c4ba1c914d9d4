#!/bin/sh
# Runs every test of every module. What the tests need beyond Go is installed
# where that can be done (as root, through apt); otherwise this says what is
# missing and fails. Nothing is skipped in silence.
#
#   sh tests/all.sh [flags for go test]
set -eu
cd "$(dirname "$0")/.."

missing=
need() { # COMMAND DEBIAN-PACKAGE...
	command -v "$1" >/dev/null 2>&1 && return
	shift
	missing="$missing $*"
}
need gcc gcc libc6-dev # the race detector links with it
need flock util-linux  # we must keep out, and be kept out by, flock(1)
need strace strace     # the order of durable writes is read off it
need chromium chromium            # the monitor's page is tested in a browser,
need chromedriver chromium-driver # which this drives
need git git           # a release is rehearsed
need python3 python3   # programs in another language take part

if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
	need initdb postgresql # the engine on it is tested with a real server
fi

if [ -n "$missing" ]; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "tests/all.sh: installing$missing"
		apt-get update -qq
		# shellcheck disable=SC2086 # a list of packages
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
	else
		echo "tests/all.sh: missing, and not root with apt: install$missing" >&2
		exit 1
	fi
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for module in . lock/pg tests benchmarks; do
	race=-race
	if [ "$module" = benchmarks ]; then
		race= # their goroutines share little, and what they measure is large to build twice
	fi
	echo "== go test $race, module $module"
	# shellcheck disable=SC2086 # no flag, or one
	(cd "$module" && CGO_ENABLED=1 go test $race -v "$@" ./...) >"$log" 2>&1 || {
		grep -a -v '^ *=== \|^ *--- PASS\|^PASS' "$log"
		exit 1
	}
	grep -a '^ok\|^?' "$log"
	if grep -a -B3 -e '--- SKIP' "$log"; then
		echo "tests/all.sh: NOT RUN: the tests above were skipped, for the reasons they give"
	fi
done
