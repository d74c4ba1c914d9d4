#!/bin/sh
# The session that README.md shows: an agent is killed in the midst of its work, and the
# next one knows. It needs holdfast in PATH, and an empty folder to be in. What it prints
# are the commands, and what they say: TestSession keeps README.md the same.
set -eu

show() { # runs a command, whatever its exit code
	printf '$ %s\n' "$1"
	eval "$1" || :
}
await() { # waits until the status of the lock has a text
	until holdfast status --json site.lock | grep -q "$1"; do sleep 0.05; done
}

show "holdfast run --label agent site.lock -- sh -c 'sleep 60 & holdfast note \"step 2 of 3: load\"; wait' &"
agent=$!
await '"note"'
show 'kill -9 $!'
wait $agent 2>/dev/null || :
await '"gone".*"processes":\[{"pid":[0-9]*,"cmd":"sleep"}\]'
show 'holdfast status site.lock'
show "kill $(holdfast status --json site.lock | sed 's/.*"processes":\[{"pid":\([0-9]*\).*/\1/')"
show "holdfast run --label next site.lock -- sh -c 'echo \$HOLDFAST_PREDECESSOR' | grep -o '\"how\".*'"
show 'holdfast status site.lock'
