/* SPDX-License-Identifier: MIT */
/*
 * A daemon whose table has used nearly all of its numbers: memory still comes,
 * and goes back to the system, while other processes look tensors up, hold
 * them and compare each byte, through the ordinary mapping and through the
 * copy-on-write one; over deaths of the server and an upgrade.
 *
 * The numbers are used up by hand: the entries of a stopped server's table are
 * written through /proc/PID/mem as they are after so many segments have come
 * and gone. That server is killed, and the next one takes over.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "shm/table.h"
#include "tests/kit/tap.h"
#include "tests/kit/upgrade.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define KEPT (3 * MIB) /* stays throughout, across a border of segments */
#define KEPT_SEED 200u
#define FILE_SIZE (9 * MIB) /* 5 segments */
#define OWN_SIZE (24 * MIB) /* of 32: what is free goes back for it */
#define ROUNDS 24u
#define UPGRADE_AT 12u
#define DEATH_EVERY 5u
#define READERS 2
/* Numbers that no segment has had: fewer than come in a few rounds. */
#define USED_UP (TABLE_SEGMENTS_MAX - 20u)

static struct shared {
	_Atomic uint32_t round; /* which file is there; 0: none */
	_Atomic int stop;
	_Atomic long right, gone, wrong;
} * shared;

/* ---- numbers ----------------------------------------------------------- */

/* Where the server has its table mapped, writable; 0: it cannot be seen. */
static uint64_t table_address(pid_t pid)
{
	unsigned long start, at = 0;
	char path[64], line[4096];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	while (file && !at && fgets(line, sizeof(line), file))
		if (strstr(line, "rw-s") && strstr(line, "tarn-table") &&
			sscanf(line, "%lx", &start) == 1)
			at = start;
	if (file)
		fclose(file);
	return at;
}

static bool write_entries(int mem, uint64_t at)
{
	const struct table_segment dropped = {
		.word = segment_word(1, SEGMENT_DROPPED), .size = 2 * MIB};
	uint32_t n, all = USED_UP;
	struct table_header h;

	if (pread(mem, &h, sizeof(h), (off_t)at) != (ssize_t)sizeof(h))
		return false;
	for (n = h.n_segments; n < all; n++)
		if (pwrite(mem, &dropped, sizeof(dropped),
			    (off_t)(at + h.segments_offset +
				    n * sizeof(dropped))) !=
			(ssize_t)sizeof(dropped))
			return false;
	return pwrite(mem, &all, sizeof(all),
		       (off_t)(at +
			       offsetof(struct table_header, n_segments))) ==
	       (ssize_t)sizeof(all);
}

/* How many numbers the table of the server counts; -1: it cannot be seen. */
static int64_t look_at_numbers(void)
{
	pid_t pid = server_of(&daemon_);
	uint64_t at = table_address(pid);
	struct table_header h;
	_cleanup_fd_ int mem = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	if (!at || mem < 0 ||
		pread(mem, &h, sizeof(h), (off_t)at) != (ssize_t)sizeof(h))
		return -1;
	return h.n_segments;
}

/* A server that has just begun has no table for a moment. */
static int64_t count_numbers(void)
{
	double end = seconds() + 60;
	int64_t n = look_at_numbers();

	for (; n < 0 && seconds() < end; n = look_at_numbers())
		usleep(10000);
	return n;
}

/* False: this user may not write there. */
static bool use_up_numbers(void)
{
	pid_t pid = server_of(&daemon_);
	uint64_t at = table_address(pid);
	_cleanup_fd_ int mem = -1;
	char path[64];
	bool done;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	kill(pid, SIGSTOP);
	done = at && mem >= 0 && write_entries(mem, at);
	server_kill(&daemon_);
	return done;
}

/* ---- readers ----------------------------------------------------------- */

static bool same_bytes(const unsigned char *p, uint32_t seed, uint64_t size)
{
	uint64_t i = 0;

	while (i < size && p[i] == made_byte(i, seed))
		i += 1 + i % 61;
	return i >= size;
}

/* Both mappings, twice: what is held does not change. */
static bool is_right(tarn_tensor *t, uint32_t seed, uint64_t size)
{
	void *guard;

	return tensor_is(t, seed, size) && tarn_tensor_guard(t, &guard) >= 0 &&
	       same_bytes(guard, seed, size) &&
	       same_bytes(tarn_tensor_data(t), seed, size);
}

static void look_at(
	tarn_store *mine, const char *name, uint32_t seed, uint64_t size)
{
	tarn_tensor *t = NULL;
	int r = CALL_AGAIN(tarn_store_lookup(mine, name, &t));

	if (r == -ENOENT) {
		shared->gone++;
	} else if (r < 0 || !is_right(t, seed, size)) {
		fprintf(stderr, "# %s: %s\n", name,
			r < 0 ? tarn_error_message() : "wrong bytes");
		shared->wrong++;
	} else {
		shared->right++;
	}
	if (r >= 0)
		tarn_tensor_unref(t);
}

static _Noreturn void read_on(void)
{
	tarn_store *mine;
	char name[40];

	if (CALL_AGAIN(tarn_store_open(daemon_.socket, NULL, &mine)) < 0)
		_exit(1);
	while (!shared->stop) {
		uint32_t round = shared->round;

		look_at(mine, "kept/x", KEPT_SEED, KEPT);
		snprintf(name, sizeof(name), "r%u/x", round);
		if (round)
			look_at(mine, name, round, FILE_SIZE);
	}
	tarn_store_unref(mine);
	_exit(0);
}

static void start_readers(pid_t pids[READERS])
{
	for (int i = 0; i < READERS; i++) {
		fflush(stdout);
		pids[i] = fork();
		if (pids[i] < 0)
			bail("fork: %m");
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			read_on();
		}
	}
}

static void end_readers(const pid_t pids[READERS])
{
	int status, failed = 0;

	shared->stop = 1;
	for (int i = 0; i < READERS; i++) {
		waitpid(pids[i], &status, 0);
		failed += status != 0;
	}
	is_int(0, failed, "the readers end without an error");
	diag("%ld times right, %ld times not there", (long)shared->right,
		(long)shared->gone);
	ok(shared->right > (long)ROUNDS,
		"the readers find the published tensors");
	is_int(0, shared->wrong, "no reader finds a byte of another tensor");
}

/* ---- memory that comes and goes ---------------------------------------- */

static int load(uint32_t round)
{
	char name[40];

	snprintf(name, sizeof(name), "r%u", round);
	return CALL_AGAIN(tensor_load(
		store, tensor_file("file", round, FILE_SIZE), name));
}

static void remove_name(const char *name)
{
	int r = CALL_AGAIN(tarn_store_remove(store, name));

	if (r < 0 && r != -ENOENT)
		bail("remove %s: %s", name, tarn_error_message());
}

/* Memory beside the pool, for which the pool gives up what is free. */
static int publish_own(void)
{
	struct tarn_publish_item item = {.name = "own"};
	int64_t size = OWN_SIZE;
	int r = tarn_store_create(store, TARN_U8, 1, &size, 0, &item.tensor);

	if (r < 0)
		return r;
	memset(tarn_tensor_data(item.tensor), 7, OWN_SIZE);
	r = tarn_store_publish(store, &item, 1, NULL, NULL);
	tarn_tensor_unref(item.tensor);
	return r;
}

/* A reader may hold the file for a moment. */
static int make_room(void)
{
	double end = seconds() + 60.0;
	int r;

	do
		r = CALL_AGAIN(publish_own());
	while (r == -ENOSPC && seconds() < end);
	return r;
}

/* By somebody, right or wrong. */
static bool is_seen(void)
{
	long wanted = shared->right + 2 * READERS;
	double end = seconds() + 120.0;

	while (shared->right < wanted && !shared->wrong && seconds() < end)
		usleep(1000);
	return shared->right >= wanted || shared->wrong;
}

/* False, with the reason: it does not go on. */
static bool turn(uint32_t round)
{
	char name[40];
	int r = load(round);

	if (r < 0) {
		diag("round %u: load: %s", round, tarn_error_message());
		return false;
	}
	shared->round = round;
	if (round % DEATH_EVERY == 0)
		server_kill(&daemon_);
	if (round == UPGRADE_AT)
		upgrade();
	/* Each file is seen by somebody before it goes. */
	if (!is_seen()) {
		diag("round %u: nobody reads", round);
		return false;
	}
	shared->round = 0;
	snprintf(name, sizeof(name), "r%u/x", round);
	remove_name(name);
	r = make_room();
	if (r < 0)
		diag("round %u: room: %s", round, tarn_error_message());
	remove_name("own");
	return r >= 0;
}

static void test_rounds(void)
{
	uint32_t n = 0;

	while (n < ROUNDS && turn(n + 1))
		n++;
	is_int(ROUNDS, n, "memory was taken and given back as often as meant");
	is_int(USED_UP, count_numbers(),
		"the same segment numbers are used again");
}

static void test_books(void)
{
	struct tarn_check *check = NULL;

	ok(taken_becomes(4 * MIB), "free memory is given back at the end");
	if (CALL_AGAIN(tarn_store_check(store, &check)) < 0)
		bail("check: %s", tarn_error_message());
	is_int(0, check->n_faults,
		"tarn check finds no fault in the server's accounts");
	tarn_check_free(check);
}

int main(void)
{
	const char *const args[] = {
		"--segment-size", "2M", "--budget", "32M", "--idle", "1", NULL};
	pid_t readers[READERS];

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		bail("mmap: %m");
	daemon_start(&daemon_, "s", args);
	if (tarn_store_open(daemon_.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	load_file("kept", KEPT_SEED, KEPT);
	if (!use_up_numbers()) {
		tarn_store_unref(store);
		daemon_stop(&daemon_);
		remove_files();
		skip_all("this user may not write the server's memory");
	}
	is_int(USED_UP, count_numbers(),
		"nearly all segment numbers were used");
	start_readers(readers);
	test_rounds();
	end_readers(readers);
	test_books();
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	remove_files();
	munmap(shared, sizeof(*shared));
	return done(9);
}
