# What the library filelock (FileLock on Unix) did with its file, call by call, at its worst
# before 3.30: every try truncated the file and set its mode, and, from about 3.21 to 3.29.4, the
# release removed it.
#     filelock_old.py FILE COMMAND...
# It tries until it has the lock, runs the command, and releases.
import fcntl, os, subprocess, sys, time

path, command = sys.argv[1], sys.argv[2:]
while True:
    fd = os.open(path, os.O_RDWR | os.O_TRUNC | os.O_NOFOLLOW | os.O_CREAT, 0o644)
    try:
        os.fchmod(fd, 0o644)
    except PermissionError:
        pass
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
    else:
        if os.fstat(fd).st_nlink > 0:
            break
        os.close(fd)
    time.sleep(0.01)
code = subprocess.run(command).returncode
os.unlink(path)
fcntl.flock(fd, fcntl.LOCK_UN)
os.close(fd)
sys.exit(code)
