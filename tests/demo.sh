#!/bin/sh
# Shows what holdfast is for: a command runs under a lock, is killed with
# SIGKILL, and the next one takes the lock over at once. Needs only Go.
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
first=
cleanup() {
	[ -z "$first" ] || kill -9 "$first" 2>/dev/null || :
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

bold='' plain=''
[ ! -t 1 ] || bold=$(printf '\033[1m') plain=$(printf '\033[0m') # and no escapes into a pipe
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

say 'Building holdfast ...'
go build -o "$work/holdfast" ./cmd/holdfast
PATH="$work:$PATH"
lock=$work/deploy.lock

say '1. A long job runs under the lock:   holdfast run --label first deploy.lock -- sleep 600'
holdfast run --label first "$lock" -- sleep 600 &
first=$!
until [ -s "$lock" ]; do
	kill -0 "$first" || exit 1
	sleep 0.1
done
holdfast status "$lock" || :

say '2. A second one would have to wait:  holdfast run --try deploy.lock -- echo mine'
holdfast run --try "$lock" -- echo mine || echo "(exit code $?)"

say "3. The first is killed where it stands:  kill -9 $first"
kill -9 "$first"
wait "$first" 2>/dev/null || :
first=
ls -l "$lock"
holdfast status "$lock" || :

say '4. The lock file is still there, its holder is not. The next one goes ahead:'
holdfast run --try --label second "$lock" -- sh -c 'echo "I have the lock, and fence $HOLDFAST_FENCE"'
holdfast status "$lock"

say '5. An agent is killed, and the worker that it has started goes on. The lock is the worker'"'"'s:'
holdfast run --label agent "$lock" -- sh -c "sleep 2 & echo \$! >'$work/worker'; wait" &
first=$!
until [ -s "$work/worker" ]; do
	kill -0 "$first" || exit 1
	sleep 0.1
done
kill -9 "$first"
wait "$first" 2>/dev/null || :
first=
holdfast status "$lock" || :

say '6. The next one waits, and goes ahead the moment the worker has ended:'
holdfast run --label third "$lock" -- echo 'Nobody else is at work.'
