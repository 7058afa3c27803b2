/* SPDX-License-Identifier: MIT */
/*
 * Memory that its owner continues to change: a file lease on it (F_SETLEASE)
 * that makes any process that opens it wait, a size that changes while it is
 * read, a mode that lets all users write; and the daemon's own descriptors
 * sent back to it. It is both published and loaded, as both ways end in the
 * same pool.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/must.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1u << 20)
#define SIZE (4 * MIB)
#define NAME "played/with"
#define ENOUGH_S 40 /* the kernel waits 45 s for who has a lease of a file */

static struct daemon server;
static struct witness witness;
static struct raw raw; /* who plays */

static const enum source_kind kinds[] = {
	SOURCE_COPY, SOURCE_ADOPT, SOURCE_MUTABLE};

static int memfd(uint64_t size)
{
	int fd = memfd_create("played", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	unsigned char *page = calloc(1, size);

	if (fd < 0 || fchmod(fd, 0644) < 0 || fd_write_all(fd, page, size) < 0)
		bail("memfd: %m");
	free(page);
	return fd;
}

static int reopened(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

/* The type of the answer, with raw.error and raw.text. */
static int publish(enum source_kind kind, uint64_t size, int fd)
{
	struct publish_msg p = publish_msg_of(kind, size, fd, NAME);

	return publish_msg_answer(&p, &raw);
}

static int load(uint64_t size, int fd)
{
	struct order order = {0};

	order_range(&order, 0, size, 0);
	order_bytes(&order, NAME, (int64_t)size);
	raw.error = 0;
	raw.text[0] = '\0';
	return order_load(&order, &raw, fd, -1);
}

static void forget(void)
{
	may_fail(tarn_store_remove(witness.store, NAME));
}

/* ---- a lease on it --------------------------------------------------- */

/* One open file description, or the kernel grants no lease. */
static int leased(void)
{
	int made = memfd(SIZE), fd = reopened(made, O_RDWR);

	close(made);
	if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		fd = fd_close(fd);
	return fd;
}

static void in_time(double start, const char *what)
{
	diag("in %.1f s", seconds() - start);
	ok(seconds() - start < ENOUGH_S, "the answer comes in time: %s", what);
	witness_is_served(&witness, what);
}

static void with_a_lease(void)
{
	/* Not to be killed by what the lease's holder is told with. */
	signal(SIGIO, SIG_IGN);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		double start = seconds();
		int fd = leased(), type;

		if (fd < 0) {
			skip(3, "this kernel grants no lease on a memfd");
			continue;
		}
		if (kinds[i] == SOURCE_MUTABLE)
			publish_msg_seal(fd, SOURCE_MUTABLE);
		type = publish(kinds[i], SIZE, fd);
		if (kinds[i] == SOURCE_MUTABLE)
			ok(type == WIRE_ERROR && raw.error == EBUSY,
				"mutable memory with a file lease on it is "
				"refused");
		else
			is_int(WIRE_PUBLISHED, type,
				"memory with a file lease on it is copied");
		in_time(start, "a file lease on published memory");
		close(fd);
		forget();
	}
}

/* What the daemon opens for others must not be leased afterwards either. */
static void lease_it_later(void)
{
	int made = memfd(SIZE), fd = reopened(made, O_RDWR);
	tarn_tensor *t = NULL;
	double start = seconds();

	close(made);
	publish_msg_seal(fd, SOURCE_MUTABLE);
	is_int(WIRE_PUBLISHED, publish(SOURCE_MUTABLE, SIZE, fd),
		"a mutable tensor is published");
	ok(fcntl(fd, F_SETLEASE, F_WRLCK) < 0 && errno == EAGAIN,
		"the creator of a mutable tensor gets no file lease on it");
	is_int(0, tarn_store_lookup(witness.store, NAME, &t),
		"another client looks the mutable tensor up");
	in_time(start, "a creator that tries to take a file lease");
	tarn_tensor_unref(t);
	close(fd);
	forget();
}

/* ---- its size, its mode ----------------------------------------------- */

static int changing;
static atomic_bool stop;

static void *change_size(void *arg)
{
	while (!stop) {
		if (ftruncate(changing, 4096) == 0)
			ftruncate(changing, SIZE);
	}
	return arg;
}

/* Published whole, or refused; the server reads past no end. */
static void while_it_changes(void)
{
	int answered = 0, n = 0;

	for (size_t i = 0; i <= ARRAY_SIZE(kinds); i++) {
		pthread_t thread;

		for (int k = 0; k < 10; k++, n++) {
			int type;

			changing = memfd(SIZE);
			stop = false;
			if (pthread_create(&thread, NULL, change_size, NULL))
				bail("a thread: %m");
			type = i < ARRAY_SIZE(kinds)
				       ? publish(kinds[i], SIZE, changing)
				       : load(SIZE, changing);
			answered += type == WIRE_PUBLISHED ||
				    type == WIRE_LOADED || type == WIRE_ERROR;
			stop = true;
			pthread_join(thread, NULL);
			close(changing);
			forget();
		}
	}
	is_int(n, answered,
		"memory that changes its size is copied or refused");
	witness_is_served(&witness, "a size changes all the time");
}

static void for_everybody(void)
{
	int fd = memfd(SIZE);

	fchmod(fd, 0777);
	publish_msg_seal(fd, SOURCE_MUTABLE);
	is_int(WIRE_ERROR, publish(SOURCE_MUTABLE, SIZE, fd),
		"mutable memory that everybody may write is refused");
	is_int(EPERM, raw.error,
		"the error of mutable memory with that mode is EPERM");
	has_str("mode 777", raw.text, "the error has the memfd's mode");
	close(fd);
	fd = memfd(SIZE);
	fchmod(fd, 0777);
	publish_msg_seal(fd, SOURCE_ADOPT);
	is_int(WIRE_PUBLISHED, publish(SOURCE_ADOPT, SIZE, fd),
		"sealed memory with that mode is published");
	ok(pwrite(fd, "x", 1, 0) < 0 && reopened(fd, O_RDWR) >= 0 &&
			mmap(NULL, SIZE, PROT_WRITE, MAP_SHARED,
				reopened(fd, O_RDWR), 0) == MAP_FAILED,
		"no process can write the sealed memory");
	close(fd);
	forget();
}

/* ---- descriptors of everything else ------------------------------------ */

static bool refused_everywhere(int fd)
{
	bool fine = true;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		fine &= publish(kinds[i], 4096, fd) == WIRE_ERROR;
	return fine && load(4096, fd) == WIRE_ERROR;
}

static void kernel_objects(void)
{
	static unsigned char params[256];
	int fd = (int)syscall(SYS_io_uring_setup, 1, params);

	if (fd < 0)
		skip(1, "no io_uring here");
	else if (raw_send(&raw, WIRE_PING, NULL, 0, &fd, 1) < 0)
		skip(1, "this kernel does not let an io_uring be sent");
	else
		ok(raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_PONG &&
				refused_everywhere(fd),
			"an io_uring descriptor is refused");
	fd_close(fd);
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	ok(refused_everywhere(fd), "a pidfd is refused");
	fd_close(fd);
	fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ok(refused_everywhere(fd), "a process's memory is refused");
	fd_close(fd);
	ok(refused_everywhere(raw.fd), "the connection itself is refused");
	witness_is_served(&witness, "descriptors of everything else");
}

/* A file in memory has seals too, but none can be added. */
static void tmpfs_file(void)
{
	char path[] = "/dev/shm/played-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	if (fd < 0)
		return skip(4, "no /dev/shm");
	unlink(path);
	if (ftruncate(fd, SIZE) < 0)
		bail("%s: %m", path);
	is_int(WIRE_PUBLISHED, publish(SOURCE_COPY, SIZE, fd),
		"a file of tmpfs can be copied");
	is_int(WIRE_PUBLISHED, publish(SOURCE_ADOPT, SIZE, fd),
		"a file of tmpfs is copied where adoption was asked for");
	ok(pwrite(fd, "x", 1, 0) == 1, "the copied file stays its owner's");
	is_int(WIRE_ERROR, publish(SOURCE_MUTABLE, SIZE, fd),
		"a file of tmpfs is refused as a mutable tensor");
	close(fd);
	forget();
}

/* What the daemon gave us, given back to it: bytes like any others, and of no
 * kind that makes them somebody's to write. */
static void its_own(void)
{
	struct msg_segments ask = {.count = 1};
	int segment;

	raw_send(&raw, WIRE_SEGMENTS, &ask, sizeof(ask), NULL, 0);
	if (raw_receive(&raw, RAW_PATIENCE_MS) != WIRE_SEGMENT_FDS ||
		!raw.n_fds)
		bail("no segment");
	segment = fd_dup(raw.fds[0]);
	for (int i = 0; i < 2; i++) {
		int fd = i ? segment : raw.table;
		const char *what = i ? "a segment" : "the control region";

		is_int(WIRE_PUBLISHED, publish(SOURCE_COPY, 8192, fd),
			"%s as a source is copied", what);
		is_int(WIRE_PUBLISHED, publish(SOURCE_ADOPT, SIZE, fd),
			"%s is not adopted, but copied", what);
		is_int(WIRE_ERROR, publish(SOURCE_MUTABLE, 8192, fd),
			"%s is not left mutable", what);
		is_int(WIRE_LOADED, load(8192, fd), "%s can be read as a file",
			what);
		witness_is_served(&witness, what);
	}
	publish(SOURCE_MUTABLE, 1u << 20, raw.lease);
	witness_is_served(&witness, "a client publishes its leases");
	close(segment);
	forget();
}

/* A sealed tensor's memory, published once more: the same pages, twice. */
static void adopted_twice(void)
{
	struct msg_storage ask = {0};
	struct tarn_descriptor d;
	tarn_tensor *t = NULL;
	int fd = memfd(SIZE), again;

	pwrite(fd, "same", 4, 0);
	publish_msg_seal(fd, SOURCE_ADOPT);
	is_int(WIRE_PUBLISHED, publish(SOURCE_ADOPT, SIZE, fd),
		"memory is adopted");
	close(fd);
	must(tarn_store_lookup(witness.store, NAME, &t));
	must(tarn_store_export(witness.store, t, &d));
	tarn_tensor_unref(t);
	ask.index = d.storage;
	ask.generation = d.generation;
	raw_send(&raw, WIRE_STORAGE, &ask, sizeof(ask), NULL, 0);
	is_int(WIRE_STORAGE_FD, raw_receive(&raw, RAW_PATIENCE_MS),
		"the server sends the storage's descriptor");
	again = fd_dup(raw.fds[0]);
	ok((fcntl(again, F_GETFL) & O_ACCMODE) == O_RDONLY,
		"the descriptor of the storage is read-only");
	ask.generation++;
	raw_send(&raw, WIRE_STORAGE, &ask, sizeof(ask), NULL, 0);
	is_int(WIRE_ERROR, raw_receive(&raw, RAW_PATIENCE_MS),
		"the descriptor of the next generation is refused");
	is_int(ESTALE, raw.error, "the error of the next generation is ESTALE");
	is_int(WIRE_PUBLISHED, publish(SOURCE_ADOPT, SIZE, again),
		"the descriptor is published again");
	is_int(WIRE_ERROR, publish(SOURCE_MUTABLE, SIZE, again),
		"the descriptor is not published as mutable");
	t = NULL;
	ok(tarn_store_lookup(witness.store, NAME, &t) == 0 &&
			memcmp(tarn_tensor_data(t), "same", 4) == 0,
		"the storage is unchanged");
	tarn_tensor_unref(t);
	close(again);
	forget();
}

int main(void)
{
	const char *const args[] = {"--idle", "1", NULL};

	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	raw_open(&raw, server.socket);
	with_a_lease();
	lease_it_later();
	while_it_changes();
	for_everybody();
	kernel_objects();
	tmpfs_file();
	its_own();
	adopted_twice();
	raw_close(&raw);
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(58);
}
