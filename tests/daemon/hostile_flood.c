/* SPDX-License-Identifier: MIT */
/*
 * A user with many connections, each of which asks for the most expensive work
 * as fast as it can, reads no answers, sends the longest messages, and has
 * lease pages of random bytes, which the server must search whenever a storage
 * is released. Another user's calls are answered all the while.
 *
 * Needs root, since only root can be two users.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "shm/lease.h"
#include "tests/kit/enemy.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define ENEMY 12345
#define CONNECTIONS 200
#define CALLS 20

static struct daemon server;
static struct witness witness;
static _Atomic unsigned *said; /* by the enemy */

/* ---- the enemy --------------------------------------------------------- */

struct frame {
	struct wire_header header;
	unsigned char body[PUBLISH_MSG_MAX - sizeof(struct wire_header)];
};

struct flood {
	const char *what;
	uint16_t type;
	uint32_t flags;
	uint32_t size;
	const void *body;
	bool reads;   /* the answers */
	bool rubbish; /* in its lease pages */
};

/* More than there is, of every generation: first and last among them. */
static void fill_leases(const struct raw *raw)
{
	struct lease_page *page;

	if (lease_map(raw->lease, &page) < 0)
		bail("no lease page");
	for (uint32_t i = 0; i < LEASE_SLOTS; i++) {
		uint64_t generation = i % 3 == 0   ? 0
				      : i % 3 == 1 ? 1 + i % 64
						   : ~0ull >> TABLE_INDEX_BITS;
		uint32_t index = i % 7 ? i % 64 : (1u << TABLE_INDEX_BITS) - 1;

		atomic_store(&page->slots[i], lease_word(index, generation));
	}
	atomic_store(&page->used, UINT32_MAX);
	lease_unmap(page);
}

static int long_fd; /* the body of all long messages */

static int zeros(uint32_t size)
{
	int fd = memfd_create("zeros", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	/* Not a hole, which would be refused unread. */
	if (fd < 0 || posix_fallocate(fd, 0, size) ||
		fcntl(fd, F_ADD_SEALS,
			F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		bail("a memfd: %m");
	return fd;
}

static void begin(struct raw *raw, const struct flood *flood)
{
	raw_open(raw, "s");
	if (flood->rubbish)
		fill_leases(raw);
	fcntl(raw->fd, F_SETFL, O_NONBLOCK);
}

/* One more, if it takes it; another connection if this one was ended. */
static void go_on(struct raw *raw, const struct flood *flood, struct frame *f)
{
	static char sink[WIRE_FRAME_MAX];
	bool is_long = flood->flags & WIRE_LONG;
	size_t size = sizeof(f->header) + (is_long ? 0 : f->header.size);

	f->header.serial++;
	if (raw_frame(raw, f, size, &long_fd, is_long) > 0)
		(*said)++;
	else if (errno != EAGAIN) {
		raw_close(raw);
		begin(raw, flood);
	}
	while (flood->reads && recv(raw->fd, sink, sizeof(sink), 0) > 0)
		;
}

static _Noreturn void attack(const struct flood *flood)
{
	static struct raw raws[CONNECTIONS];
	static struct frame f;

	become_enemy(ENEMY);
	f.header = (struct wire_header) {.magic = WIRE_MAGIC,
		.type = flood->type,
		.flags = flood->flags,
		.size = flood->size};
	if (flood->flags & WIRE_LONG)
		long_fd = zeros(flood->size);
	else if (flood->size)
		memcpy(f.body, flood->body, flood->size);
	for (int i = 0; i < CONNECTIONS; i++)
		begin(&raws[i], flood);
	for (;;)
		for (int i = 0; i < CONNECTIONS; i++)
			go_on(&raws[i], flood, &f);
}

/* ---- the innocent ------------------------------------------------------ */

static int by_length(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of the server's own time. Other processes may keep it from its work, which
 * costs a call time on the clock, and is no fault of the server's. */
static double worked(void)
{
	struct timespec t = {0};
	clockid_t clock;

	if (clock_getcpuclockid(server_of(&server), &clock) != 0 ||
		clock_gettime(clock, &t) < 0)
		bail("the server's time: %m");
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct calls {
	int fine;
	double median, longest;
};

/* How long the server has worked when it answers. */
static struct calls make_calls(void)
{
	double took[CALLS];
	struct calls calls = {0};

	for (int i = 0; i < CALLS; i++) {
		double start = worked();
		struct tarn_report_daemon s;

		calls.fine += report_daemon(witness.store, &s) >= 0;
		took[i] = worked() - start;
		usleep(10000);
	}
	qsort(took, CALLS, sizeof(*took), by_length);
	calls.median = took[CALLS / 2];
	calls.longest = took[CALLS - 1];
	return calls;
}

static void is_served_under(const struct flood *flood)
{
	struct calls calls;
	pid_t pid;

	*said = 0;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		attack(flood);
	while (*said < 2 * CONNECTIONS && kill(pid, 0) == 0 &&
		waitpid(pid, NULL, WNOHANG) == 0)
		usleep(10000);
	calls = make_calls();
	diag("%s: %u messages; a call takes %.1f ms of CPU, at most %.1f",
		flood->what, *said, calls.median * 1e3, calls.longest * 1e3);
	is_int(CALLS, calls.fine, "calls are answered under a flood of %s",
		flood->what);
#ifdef __SANITIZE_THREAD__
	skip(1, "the server is twenty times slower with ThreadSanitizer");
#else
	ok(calls.median < 0.1, "calls are answered soon under a flood of %s",
		flood->what);
#endif
	witness_can_load(&witness, flood->what);
	is_int(0, kill(pid, SIGKILL),
		"the hostile user was active all the time");
	waitpid(pid, NULL, 0);
}

static void floods(void)
{
	static unsigned char publish[PUBLISH_MSG_MAX];
	static const struct msg_hello hello = {
		.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST};
	static const struct msg_segments segments = {.count = 64};
	static const struct msg_released released = {.generation = 1};
	static const struct msg_restarted restarted = {.restarts = 1};
	static const struct msg_storage storage = {.generation = 1};
	static const struct msg_report report;
	struct publish_msg p = {.n_bytes = 64};
	uint32_t size;
	struct flood all[] = {
		{"reports", WIRE_REPORT, 0, sizeof(report), &report, true,
			true},
		{"reports that it does not read", WIRE_REPORT, 0,
			sizeof(report), &report, false, true},
		{"checks", WIRE_CHECK, 0, 0, NULL, true, true},
		{"checks that it does not read", WIRE_CHECK, 0, 0, NULL, false,
			false},
		{"notifications", WIRE_RELEASED, 0, sizeof(released), &released,
			true, true},
		{"lease pages", WIRE_LEASES, 0, 0, NULL, true, true},
		{"resumptions", WIRE_RESUME, 0, sizeof(restarted), &restarted,
			true, false},
		{"second hellos", WIRE_HELLO, WIRE_AGAIN, sizeof(hello), &hello,
			false, false},
		{"segments that it does not read", WIRE_SEGMENTS, 0,
			sizeof(segments), &segments, false, false},
		{"storages that are none", WIRE_STORAGE, 0, sizeof(storage),
			&storage, false, false},
		{"messages of 64 MiB", WIRE_PUBLISH, WIRE_LONG, 64u << 20, NULL,
			true, false},
		{"publications", WIRE_PUBLISH, 0, 0, publish, true, true},
		{"publications that it does not hear of", WIRE_PUBLISH, 0, 0,
			publish, false, true},
	};

	publish_msg_source(&p, SOURCE_BYTES, 64);
	publish_msg_name(&p, "same", 0, 0, 64, 1);
	size = (uint32_t)publish_msg_write(&p, publish);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (all[i].type == WIRE_PUBLISH && !all[i].flags)
			all[i].size = size;
		is_served_under(&all[i]);
	}
}

int main(void)
{
	const char *const args[] = {"--mode", "0666", "--idle", "1", NULL};

	if (geteuid() != 0)
		skip_all("only root can be two users");
	if (chmod(test_tmpdir(), 0711) < 0)
		bail("%s: %m", test_tmpdir());
	said = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	floods();
	witness_is_served(&witness, "at the end");
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(54);
}
