// A program that takes part by flock(2) alone, with nothing but what its manual page says.
//
// usage: flock queue LOCK.flock [COUNT COUNTER]   locks that file, as flock(1) and the lock of
//                                                a config editor do
//        flock own LOCK [COUNT COUNTER]          makes the lock file with O_EXCL, locks it, and
//                                                says in it who it is; removes it when done
//
// Without COUNT it says "held", and keeps the lock until its input ends. With COUNT it adds
// one to the number in the file COUNTER so often, each time under the lock.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static int queue(const char *path) {
	int fd = open(path, O_RDWR | O_CREAT, 0666);
	if (fd < 0) fail("open");
	if (flock(fd, LOCK_EX) != 0) fail("flock");
	return fd;
}

static int own(const char *path) {
	int fd;
	while ((fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600)) < 0) {
		if (errno != EEXIST) fail("open");
		usleep(1000);
	}
	if (flock(fd, LOCK_EX) != 0) fail("flock");
	time_t now = time(NULL);
	char at[32];
	strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	dprintf(fd, "{\"pid\":%d,\"created_at\":\"%s\",\"cmd\":\"c\"}\n", (int)getpid(), at);
	return fd;
}

static void add(const char *counter) {
	char text[32] = "";
	int fd = open(counter, O_RDWR | O_CREAT, 0600);
	if (fd < 0) fail("open the counter");
	if (read(fd, text, sizeof text - 1) < 0) fail("read");
	int n = snprintf(text, sizeof text, "%d\n", atoi(text) + 1);
	if (pwrite(fd, text, n, 0) != n) fail("write");
	close(fd);
}

int main(int argc, char **argv) {
	int in_queue = strcmp(argv[1], "queue") == 0;
	int count = argc > 3 ? atoi(argv[3]) : 1;
	for (int i = 0; i < count; i++) {
		int fd = in_queue ? queue(argv[2]) : own(argv[2]);
		if (argc > 4) {
			add(argv[4]);
		} else {
			puts("held");
			fflush(stdout);
			while (getchar() != EOF) {
			}
		}
		if (!in_queue && unlink(argv[2]) != 0) fail("unlink");
		close(fd);
		usleep(500);
	}
	return 0;
}
