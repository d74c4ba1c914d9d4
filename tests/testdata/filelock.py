# What the library filelock (FileLock on Unix, 3.30 to 4.2) does with its file, call by call:
#     filelock.py FILE COMMAND...
# It tries until it has the lock, runs the command, and releases. Nothing is changed before it
# has the lock, and the file stays.
import fcntl, os, subprocess, sys, time

path, command = sys.argv[1], sys.argv[2:]
while True:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
    else:
        if os.fstat(fd).st_nlink > 0:
            os.ftruncate(fd, 0)
            break
        os.close(fd)
    time.sleep(0.01)
code = subprocess.run(command).returncode
fcntl.flock(fd, fcntl.LOCK_UN)
os.close(fd)
sys.exit(code)
