/* SPDX-License-Identifier: MIT */
/*
 * The lock of a file, between threads and processes: readers share it, a
 * writer has it alone, a waiting writer comes before later readers, a killed
 * process loses it, and a forked child has none.
 */
#include "lib/store/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "tests/kit/tap.h"

#define LONG_MS 20000
#define PROCESSES 4
#define THREADS 3
#define ROUNDS 200

static int memory = -1;

/* What all processes look at. */
static struct shared {
	_Atomic int inside;   /* writers */
	_Atomic int readers;  /* readers */
	_Atomic int together; /* most of them at once */
	_Atomic int wrong;
	_Atomic int stop;
	long plain; /* added to by writers only */
} * shared;

/* A description of its own of the same file. */
static void give_fd(struct file_lock *lock, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		bail("%s: %m", path);
	file_lock_set_fd(lock, fd);
}

static struct file_lock *make_lock(int flags)
{
	struct file_lock *lock;

	if (file_lock_new(&lock) < 0)
		bail("%s", tarn_fail_message());
	give_fd(lock, flags);
	return lock;
}

/* Two locks are as two processes to the kernel. */
static void test_modes(void)
{
	struct file_lock *a = make_lock(O_RDWR), *b = make_lock(O_RDWR);
	struct file_lock *c = make_lock(O_RDONLY);
	double start;

	is_int(-EPERM, file_lock_give(a),
		"a lock that was not taken cannot be released");
	is_int(0, file_lock_take(a, false, 0), "a first reader gets the lock");
	is_int(0, file_lock_take(b, false, 0), "a second reader gets the lock");
	is_int(0, file_lock_take(c, false, 0),
		"a third reader with a read-only descriptor gets the lock");
	is_int(-EROFS, file_lock_take(c, true, 0),
		"a read-only descriptor cannot take a write lock");
	start = seconds();
	is_int(-ETIMEDOUT, file_lock_take(a, true, 100),
		"no writer gets the lock while there are readers");
	ok(seconds() - start >= 0.1, "a writer waits until its timeout");
	has_str("within 100 ms", tarn_fail_message(),
		"the error contains 'within 100 ms'");
	is_int(0, file_lock_give(a), "the first reader releases the lock");
	is_int(0, file_lock_give(b), "the second reader releases the lock");
	is_int(-ETIMEDOUT, file_lock_take(a, true, 0),
		"no writer gets the lock while one reader is left");
	is_int(0, file_lock_give(c), "the third reader releases the lock");
	is_int(0, file_lock_take(a, true, 0),
		"a writer gets the lock without readers");
	is_int(-EDEADLK, file_lock_take(a, true, -1),
		"a writer cannot take the lock twice");
	is_int(-EDEADLK, file_lock_take(a, false, -1),
		"a writer cannot take its own read lock, even without a "
		"timeout");
	is_int(-ETIMEDOUT, file_lock_take(b, true, 0),
		"a second writer waits until its timeout");
	is_int(-ETIMEDOUT, file_lock_take(c, false, 0),
		"a reader with a read-only descriptor waits for the writer");
	file_lock_free(a);
	is_int(0, file_lock_take(b, true, 0),
		"closing a descriptor releases its lock");
	file_lock_free(b);
	file_lock_free(c);
}

/* ---- a process that holds it ----------------------------------------- */

static pid_t hold_in_child(bool writes)
{
	int ends[2];
	char c;
	pid_t pid;

	if (pipe(ends) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		struct file_lock *lock = make_lock(O_RDWR);

		if (file_lock_take(lock, writes, LONG_MS) == 0 &&
			write(ends[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ends[1]);
	if (read(ends[0], &c, 1) != 1)
		bail("the child has not got the lock");
	close(ends[0]);
	return pid;
}

static void kill_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_killed(void)
{
	struct file_lock *lock = make_lock(O_RDWR);
	pid_t pid = hold_in_child(true);

	is_int(-ETIMEDOUT, file_lock_take(lock, false, 50),
		"a reader waits while a child has the write lock");
	kill_child(pid);
	is_int(0, file_lock_take(lock, true, 0),
		"a writer gets the lock of a child that was killed");
	file_lock_give(lock);
	pid = hold_in_child(false);
	is_int(0, file_lock_take(lock, false, 0),
		"a reader shares the lock with a child that reads");
	file_lock_give(lock);
	is_int(-ETIMEDOUT, file_lock_take(lock, true, 50),
		"a writer waits while a child has the read lock");
	kill_child(pid);
	is_int(0, file_lock_take(lock, true, 0),
		"a writer gets the lock after the reading child was killed");
	file_lock_free(lock);
}

/* A killed parent's child must not keep what the parent had. */
static void test_forked(void)
{
	struct file_lock *lock = make_lock(O_RDWR);
	int status = -1, ends[2];
	pid_t pid, grandchild = 0;

	file_lock_take(lock, true, 0);
	pid = fork();
	if (pid == 0) {
		if (file_lock_has_fd(lock) || file_lock_give(lock) != -EPERM)
			_exit(1);
		give_fd(lock, O_RDWR);
		_exit(file_lock_take(lock, true, 0) != -ETIMEDOUT);
	}
	waitpid(pid, &status, 0);
	is_int(0, status,
		"a forked child has no lock, and reopens its descriptor");
	is_int(0, file_lock_give(lock),
		"the parent still has its lock after the child ended");
	if (pipe(ends) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		struct file_lock *mine = make_lock(O_RDWR);

		file_lock_take(mine, true, LONG_MS);
		grandchild = fork();
		if (grandchild == 0)
			grandchild = getpid();
		if (write(ends[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	for (int i = 0; i < 2; i++)
		if (read(ends[0], &grandchild, sizeof(grandchild)) !=
			sizeof(grandchild))
			bail("no grandchild");
	is_int(-ETIMEDOUT, file_lock_take(lock, true, 0),
		"a writer waits while a child has the write lock");
	kill_child(pid);
	is_int(0, file_lock_take(lock, true, 0),
		"a killed child's lock is free although its own child lives");
	kill(grandchild, SIGKILL);
	close(ends[0]);
	close(ends[1]);
	file_lock_free(lock);
}

/* ---- nobody is starved ----------------------------------------------- */

static void *read_on(void *arg)
{
	struct file_lock *lock = arg;

	while (!shared->stop) {
		if (file_lock_take(lock, false, LONG_MS) < 0)
			break;
		usleep(3000);
		file_lock_give(lock);
	}
	return NULL;
}

/* They overlap, so that at no time nobody reads. */
static void test_starved(void)
{
	struct file_lock *lock = make_lock(O_RDWR);
	pthread_t threads[2];
	pid_t pid;

	shared->stop = 0;
	pid = fork();
	if (pid == 0) {
		struct file_lock *mine = make_lock(O_RDWR);

		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], NULL, read_on, mine);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		_exit(0);
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, read_on, lock);
	usleep(50000);
	for (int i = 0; i < 10; i++) {
		is_int(0, file_lock_take(lock, true, LONG_MS),
			"a writer gets the lock among readers, round %d", i);
		file_lock_give(lock);
	}
	shared->stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	waitpid(pid, NULL, 0);
	file_lock_free(lock);
}

/* ---- many ------------------------------------------------------------ */

static void read_once(struct file_lock *lock)
{
	int n;

	if (file_lock_take(lock, false, LONG_MS) < 0) {
		shared->wrong++;
		return;
	}
	n = ++shared->readers;
	if (n > shared->together)
		shared->together = n;
	shared->wrong += shared->inside != 0;
	usleep(100);
	shared->readers--;
	shared->wrong += file_lock_give(lock) < 0;
}

static void write_once(struct file_lock *lock)
{
	long was;

	if (file_lock_take(lock, true, LONG_MS) < 0) {
		shared->wrong++;
		return;
	}
	shared->wrong += ++shared->inside != 1 || shared->readers != 0;
	was = shared->plain;
	if (was % 16 == 0)
		usleep(100);
	shared->plain = was + 1;
	shared->inside--;
	shared->wrong += file_lock_give(lock) < 0;
}

static void *work(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		if (i % 3)
			read_once(arg);
		else
			write_once(arg);
	return NULL;
}

static void test_many(void)
{
	long wanted = PROCESSES * THREADS * ((ROUNDS + 2) / 3);
	double start = seconds();

	for (int i = 0; i < PROCESSES; i++) {
		pthread_t threads[THREADS];
		struct file_lock *lock;

		if (fork() != 0)
			continue;
		lock = make_lock(O_RDWR);
		for (int k = 0; k < THREADS; k++)
			pthread_create(&threads[k], NULL, work, lock);
		for (int k = 0; k < THREADS; k++)
			pthread_join(threads[k], NULL);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	is_int(0, shared->wrong, "no reader is inside together with a writer");
	is_int(wanted, shared->plain, "no writer's addition is lost");
	diag("%d readers at once", shared->together);
	ok(shared->together > 1, "two or more readers were inside together");
	diag("%d locks in %.2f s", PROCESSES * THREADS * ROUNDS,
		seconds() - start);
}

int main(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memory = memfd_create("locked", MFD_CLOEXEC);
	if (shared == MAP_FAILED || memory < 0)
		bail("memory: %m");
	test_modes();
	test_killed();
	test_forked();
	test_starved();
	test_many();
	close(memory);
	munmap(shared, sizeof(*shared));
	return done(40);
}
