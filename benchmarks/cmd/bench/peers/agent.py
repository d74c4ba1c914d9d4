"""Speaks for fcntl.flock; see agent.go for the orders and their answers."""
import fcntl
import os
import sys
import time

path = sys.argv[1]
held = None


def lock(how="exclusive"):
    global held
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(held, fcntl.LOCK_SH if how == "shared" else fcntl.LOCK_EX)


def unlock():
    os.close(held)


def cycle(ns):
    n, begin = 0, time.monotonic_ns()
    end = begin + ns
    while n == 0 or time.monotonic_ns() < end:
        lock()
        unlock()
        n += 1
    return n, time.monotonic_ns() - begin, 0


def loop(begin, ns, hold, think, how):
    time.sleep(max(0, begin - time.monotonic_ns()) / 1e9)
    count, waits = 0, []
    while time.monotonic_ns() < begin + ns:
        asked = time.monotonic_ns()
        lock(how)
        had = time.monotonic_ns()
        waits.append(had - asked)
        count += had < begin + ns
        time.sleep(hold / 1e9)
        unlock()
        time.sleep(think / 1e9)
    return [count] + waits


def alive(pid):
    for _ in range(1000):
        try:
            with open("/proc/%s/stat" % pid) as f:
                state = f.read().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state in "ZX":
            return False
        time.sleep(0.001)
    return True


def under_lock():
    mark, counter, me = path + ".mark", path + ".counter", str(os.getpid())
    alone = True
    try:
        os.symlink(me, mark)
    except FileExistsError:
        try:
            alone = not alive(os.readlink(mark))
            os.remove(mark)
            os.symlink(me, mark)
        except OSError:
            alone = False
    n = 0
    try:
        with open(counter) as f:
            n = int(f.read() or 0)
    except FileNotFoundError:
        pass
    with open(counter + "." + me, "w") as f:
        f.write(str(n + 1))
    os.rename(counter + "." + me, counter)
    try:
        alone = os.readlink(mark) == me and alone
        os.remove(mark)
    except OSError:
        alone = False
    return alone


for line in sys.stdin:
    order, *args = line.split()
    try:
        if order == "lock":
            asked = time.monotonic_ns()
            lock(*args)
            answer = [asked, time.monotonic_ns()]
        elif order == "unlock":
            asked = time.monotonic_ns()
            unlock()
            answer = [asked, time.monotonic_ns()]
        elif order == "cycle":
            answer = cycle(int(args[0]))
        elif order == "times":
            for _ in range(int(args[0])):
                lock()
                unlock()
            answer = []
        elif order == "loop":
            answer = loop(*map(int, args[:4]), args[4])
        elif order == "stress":
            while True:
                lock()
                alone = under_lock()
                unlock()
                print("ok", int(alone), flush=True)
        else:
            raise ValueError("no such order: " + order)
        print("ok", *answer, flush=True)
    except Exception as e:
        print("error", e, flush=True)
