#!/bin/sh
# Runs every test of every module. What they need beyond Go is installed where that can be
# done (as root, through apt); what can't run without it is told at the end, and is no
# failure. The whole output is kept in a file, which is named.
#
#   sh tests/all.sh [-complete] [flags for go test]
#
# -complete makes it a failure that a test could not run.
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
[ -x /usr/sbin/mkfs.xfs ] || need mkfs.xfs xfsprogs # chaos is raised on these filesystems, too
[ -x /usr/sbin/mkfs.btrfs ] || need mkfs.btrfs btrfs-progs
need python3 python3   # programs in other languages take part
need node nodejs
need etcd etcd-server   # the version that Debian has
[ -x /usr/sbin/pgbouncer ] || need pgbouncer pgbouncer # a pooler before it is found out
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
	need initdb postgresql # the engine on it is tested with a real server
fi

if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "tests/all.sh: installing$missing"
	# shellcheck disable=SC2086 # a list of packages
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
		echo "tests/all.sh: could not install them; going on without"
fi

exec env GOWORK=off go run tests/all.go "$@"
