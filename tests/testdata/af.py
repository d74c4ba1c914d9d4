"""A tool that follows af's published lock protocol for external tools, and nothing else:
what that does not say, it does not do. Where it says what to do about an error (a timeout
of the lock, a sequence mismatch: retry), that is done; any other error ends it.

usage: af.py append PROOF COUNT     appends as many events, each by compare-and-swap
       af.py claim PROOF NODE OWNER SECONDS
       af.py release PROOF NODE OWNER
       af.py replay PROOF           prints the claims that are active: NODE OWNER, a line each
       af.py hold PROOF             takes the ledger's lock, says so, and waits for its input
"""

import datetime
import glob
import json
import os
import sys
import tempfile
import time

POLL = 0.010
TIMEOUT = 5.0


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def stamp(t):
    return t.strftime("%Y-%m-%dT%H:%M:%SZ")


def acquire(ledger, agent):
    path = os.path.join(ledger, "ledger.lock")
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            if time.monotonic() > deadline:
                raise TimeoutError("timeout waiting for lock")
            time.sleep(POLL)
            continue
        os.write(fd, (json.dumps({"agent_id": agent, "acquired_at": stamp(now())}) + "\n").encode())
        os.close(fd)
        return


def release(ledger):
    os.remove(os.path.join(ledger, "ledger.lock"))


def count_events(ledger):
    """The current sequence, by counting event files."""
    return len(glob.glob(os.path.join(ledger, "event-*.json")))


class SequenceMismatch(Exception):
    pass


def write_event(ledger, event, sequence):
    """The atomic write pattern: temporary file, fsync, rename."""
    fd, temp = tempfile.mkstemp(prefix=".event-", suffix=".tmp", dir=ledger)
    os.write(fd, json.dumps(event).encode())
    os.fsync(fd)
    os.close(fd)
    os.rename(temp, os.path.join(ledger, "event-%06d.json" % sequence))


def append_if_sequence(ledger, event, expected, agent):
    acquire(ledger, agent)
    try:
        if count_events(ledger) != expected:
            raise SequenceMismatch()
        write_event(ledger, event, expected + 1)
    finally:
        release(ledger)


def replay(ledger):
    """The pseudocode of the protocol, word by word."""
    locks = {}
    for n in range(1, count_events(ledger) + 1):
        with open(os.path.join(ledger, "event-%06d.json" % n)) as f:
            event = json.load(f)
        if event["type"] == "lock_acquired":
            locks[event["node_id"]] = {
                "owner": event["owner"],
                "acquired_at": event["timestamp"],
                "expires_at": event["expires_at"],
            }
        elif event["type"] in ["lock_released", "lock_reaped"]:
            del locks[event["node_id"]]
    at = now()
    return {node: lock for node, lock in locks.items() if parse_time(lock["expires_at"]) > at}


def parse_time(text):
    whole, _, fraction = text.rstrip("Z").partition(".")
    t = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
    return t + datetime.timedelta(seconds=float("0." + fraction) if fraction else 0)


def change(ledger, agent, make):
    """Optimistic locking: load, decide, append if nobody has since, else again."""
    while True:
        sequence = count_events(ledger)
        event = make()
        try:
            append_if_sequence(ledger, event, sequence, agent)
            return
        except SequenceMismatch:
            continue
        except TimeoutError:
            continue  # "Retry with backoff": the poll was one


def main(what, proof, *args):
    ledger = os.path.join(proof, "ledger")
    agent = "python-%d" % os.getpid()
    if what == "append":
        for n in range(int(args[0])):
            change(ledger, agent, lambda: {"type": "custom_event", "timestamp": stamp(now()), "agent": agent, "n": n})
    elif what == "claim":
        node, owner, seconds = args

        def take():
            locks = replay(ledger)
            if node in locks:
                sys.exit("node already locked: " + locks[node]["owner"])
            at = now()
            return {"type": "lock_acquired", "timestamp": stamp(at), "node_id": node, "owner": owner,
                    "expires_at": stamp(at + datetime.timedelta(seconds=int(seconds)))}

        change(ledger, agent, take)
    elif what == "release":
        node, owner = args

        def give():
            locks = replay(ledger)
            if node not in locks or locks[node]["owner"] != owner:
                sys.exit("not claimed by " + owner)
            return {"type": "lock_released", "timestamp": stamp(now()), "node_id": node, "owner": owner}

        change(ledger, agent, give)
    elif what == "replay":
        for node, lock in sorted(replay(ledger).items()):
            print(node, lock["owner"])
    elif what == "hold":
        acquire(ledger, agent)
        print("held", flush=True)
        sys.stdin.read()
        release(ledger)


main(*sys.argv[1:])
