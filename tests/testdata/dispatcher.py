"""A dispatcher in another language: it claims one id again and again, by the rules
of the format and nothing else, in the order of system calls of entwurf. It has
no kernel lock, and judges a holder by kill(pid, 0) alone.

usage: dispatcher.py DIR ID LOG STOP

It works in children, each of which dies by SIGKILL sooner or later, at a place where
that leaves a dead claim, or a marker, or both, behind. (Not between the creation of
a claim and its text: what that leaves only a hand may remove.)

LOG gets a line for each claim had, and one for each given up; the file STOP ends it.
"""

import json
import os
import random
import signal
import socket
import sys
import time

OWNER = "entwurf_v2"
FIELDS = {"gardenId": str, "pid": int, "hostname": str, "createdAt": str, "nonce": str}


def may_die(odds):
    if random.random() < odds:
        os.kill(os.getpid(), signal.SIGKILL)


def parse(raw, gid):
    try:
        o = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(o, dict) or o.get("owner") != OWNER:
        return None
    if any(not isinstance(o.get(name), kind) for name, kind in FIELDS.items()):
        return None
    return o if o["gardenId"] == gid else None


def is_dead(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False


class Lock:
    def __init__(self, folder, gid):
        self.gid = gid
        self.path = os.path.join(folder, gid + ".lock")
        self.marker = self.path + ".reclaim"

    def read(self):
        with open(self.path, "rb") as f:
            return parse(f.read().decode("utf-8", "replace"), self.gid)

    def create(self, claim):
        """tryCreate: whether the claim is ours now."""
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        os.write(fd, (json.dumps(claim) + "\n").encode())
        os.close(fd)
        return True

    def acquire(self):
        """acquireLock: the claim, or None for a conflict."""
        claim = {
            "gardenId": self.gid, "pid": os.getpid(), "hostname": socket.gethostname(),
            "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "nonce": os.urandom(8).hex(), "owner": OWNER, "lockPath": self.path,
        }
        if self.create(claim):
            return claim
        try:
            holder = self.read()
        except FileNotFoundError:
            return claim if self.create(claim) else None
        if holder is None or holder["hostname"] != claim["hostname"] or not is_dead(holder["pid"]):
            return None
        try:
            marker = os.open(self.marker, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_EXCL, 0o666)
        except FileExistsError:
            return None
        try:
            may_die(0.05)
            try:
                current = self.read()
            except OSError:
                current = None
            if current is None or current["nonce"] != holder["nonce"]:
                return None
            may_die(0.05)
            try:
                os.unlink(self.path)
            except FileNotFoundError:
                pass
            may_die(0.05)
            if not self.create(claim):
                return None
            may_die(0.05)
            return claim
        finally:
            os.close(marker)
            may_die(0.02)
            try:
                os.unlink(self.marker)
            except OSError:
                pass

    def release(self, claim):
        """releaseLock."""
        try:
            on_disk = self.read()
        except FileNotFoundError:
            return "absent"
        if on_disk is None or on_disk["nonce"] != claim["nonce"]:
            return "not-owned"
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return "absent"
        return "released"


def has_gone(pid):
    for _ in range(1000):
        try:
            with open("/proc/%s/stat" % pid, "rb") as f:
                if f.read().rpartition(b") ")[2][:1] in (b"Z", b"X"):
                    return True
        except OSError:
            return True
        time.sleep(0.001)
    return False


def alone(mark):
    """Puts up a mark that only one can put up, and takes it down again."""
    while True:
        try:
            os.symlink(str(os.getpid()), mark)
            break
        except FileExistsError:
            owner = os.readlink(mark)
            if not has_gone(owner):
                sys.exit("not alone: pid %s is at work too" % owner)
            os.unlink(mark)
    may_die(0.05)
    os.unlink(mark)


def work(folder, gid, log):
    lock = Lock(folder, gid)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(what, claim):
        os.write(out, ("%s python %s %d\n" % (what, claim["nonce"], os.getpid())).encode())

    for _ in range(500):
        claim = lock.acquire()
        if claim is None:
            time.sleep(random.random() / 1000)
            continue
        say("acquired", claim)
        alone(os.path.join(folder, "only.mark"))
        say("releasing", claim)
        outcome = lock.release(claim)
        if outcome != "released":
            sys.exit("releasing a claim of ours: " + outcome)


def main(folder, gid, log, stop):
    parent = os.getppid()
    while not os.path.exists(stop) and os.getppid() == parent:
        child = os.fork()
        if child == 0:
            random.seed()
            work(folder, gid, log)
            return
        _, status = os.waitpid(child, 0)
        if status == signal.SIGKILL:
            print("died", flush=True)
        elif status != 0:
            sys.exit("a child ended with status %d" % status)


main(*sys.argv[1:])
