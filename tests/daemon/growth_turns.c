/* SPDX-License-Identifier: MIT */
/*
 * Two pools that grow at the same time.
 *
 * The keeper is stopped until it has been asked for both.
 *
 *	1. a load needs many segments of a pool, and a load into another pool
 *	   needs one: it has its turn after the first or second
 *	2. two loads need many segments each, and the budget holds one of them:
 *	   one is served, the other is refused with the budget. Were each given
 *	   a segment in turn without a look at what the other still needs, both
 *	   would fail
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define LARGE (512 * MIB) /* 32 segments, of which 31 are not there */
#define SMALL (17 * MIB)  /* two, of which one is not there */
#define HALF (112 * MIB)  /* two are more than the budget of the second part */
#define TURNS_MOST 3      /* of the large one before the small one */
#define PATIENCE_S 60.0   /* on a loaded machine */

static struct daemon daemon_;
static char log_path[300];

/* ---- a daemon with two pools --------------------------------------------- */

static void start(const char *budget)
{
	char conf[300];
	const char *const args[] = {"--budget", budget, "--config", conf, NULL};
	FILE *f;

	snprintf(conf, sizeof(conf), "%s/conf", test_tmpdir());
	f = fopen(conf, "we");
	if (!f ||
		fputs("[pool one]\nsegment-size = 16M\n"
		      "[pool two]\nsegment-size = 16M\n",
			f) < 0 ||
		fclose(f) != 0)
		bail("%s: %m", conf);
	daemon_start(&daemon_, "s", args);
	unlink(conf);
}

/* To load that many bytes, under that name, of a file of zeros. */
static void ask(
	struct raw *raw, const char *name, uint64_t bytes, uint64_t file_size)
{
	struct order order = {0};
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)file_size) < 0)
		bail("%s: %m", path);
	unlink(path);
	order_range(&order, 0, bytes, 0);
	order_bytes(&order, name, (int64_t)bytes);
	raw->loading = (struct msg_loading) {0};
	if (order_send(&order, raw, fd, -1) < 0)
		bail("the load cannot be asked for");
	close(fd);
}

/* A load looks at its file before it asks for memory, and it is the keeper that
 * makes what looks: a loader, which stays when a load has failed. So does the
 * segment that such a load has grown its pool by, which is empty then. */
static void open_pool(struct raw *raw, const char *pool)
{
	raw_open_pool(raw, daemon_.socket, pool);
	ask(raw, "short", 2, 1);
	if (raw_answer(raw) != WIRE_ERROR)
		bail("a file that is too short was loaded");
}

/* It makes no memory meanwhile. */
static void stop_keeper(void)
{
	if (kill(daemon_.pid, SIGSTOP) < 0)
		bail("the keeper cannot be stopped: %m");
	wait_stopped(daemon_.pid);
}

/* Asks for a load; returns when the server has asked the keeper for memory. */
static void ask_for_memory(struct raw *raw, const char *name, uint64_t bytes)
{
	double end = seconds() + PATIENCE_S;

	ask(raw, name, bytes, bytes);
	while (raw->loading.phase != LOADING_MEMORY && seconds() < end &&
		raw_receive(raw, 1) == -1)
		;
	if (raw->loading.phase != LOADING_MEMORY)
		bail("no memory is asked for %s: %s", name, raw->text);
}

/* ---- what came first ------------------------------------------------------ */

/* Lines of the first domain's segments that were logged after so many bytes, up
 * to another domain's first. */
static int lines_of_first(long from, bool *ret_another)
{
	FILE *f = fopen(log_path, "re");
	char line[1024];
	unsigned first = 0, domain;
	int n = 0;

	if (!f || fseek(f, from, SEEK_SET) < 0)
		bail("%s: %m", log_path);
	*ret_another = false;
	while (!*ret_another && fgets(line, sizeof(line), f)) {
		const char *p = strstr(line, "segment_add");

		p = p ? strstr(p, "domain=") : NULL;
		if (!p || sscanf(p, "domain=%u", &domain) != 1)
			continue;
		if (!n)
			first = domain;
		*ret_another = domain != first;
		n += domain == first;
	}
	fclose(f);
	return n;
}

static long log_size(void)
{
	struct stat st;

	if (stat(log_path, &st) < 0)
		bail("%s: %m", log_path);
	return st.st_size;
}

static void small_beside_large(void)
{
	struct raw large, small;
	bool another;
	long before;
	int n;

	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	daemon_log_to(log_path);
	start("1G");
	daemon_log_to(NULL);
	open_pool(&large, "one");
	open_pool(&small, "two");
	stop_keeper();
	before = log_size();
	ask_for_memory(&large, "large", LARGE);
	ask_for_memory(&small, "small", SMALL);
	kill(daemon_.pid, SIGCONT);
	is_int(WIRE_LOADED, raw_answer(&small), "the small load is served");
	n = lines_of_first(before, &another);
	ok(another && n > 0 && n <= TURNS_MOST,
		"the small pool has its turn after %d of 31 segments", n);
	is_int(WIRE_LOADED, raw_answer(&large), "the large load is served");
	raw_close(&large);
	raw_close(&small);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	unlink(log_path);
}

/* ---- the last room --------------------------------------------------------- */

static void two_for_one(void)
{
	struct raw one, two;

	start("200M");
	open_pool(&one, "one");
	open_pool(&two, "two");
	stop_keeper();
	ask_for_memory(&one, "first", HALF);
	ask_for_memory(&two, "second", HALF);
	kill(daemon_.pid, SIGCONT);
	is_int(WIRE_LOADED, raw_answer(&one),
		"the first of two that do not fit together is served");
	is_int(WIRE_ERROR, raw_answer(&two), "the second is refused");
	is_int(ENOSPC, two.error, "the error of the second is ENOSPC");
	has_str("budget of 200.0 MiB", two.text,
		"the error of the second names the budget");
	ask(&two, "third", 64 * MIB, 64 * MIB);
	is_int(WIRE_LOADED, raw_answer(&two),
		"what fits beside the first is served");
	raw_close(&one);
	raw_close(&two);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
}

int main(void)
{
	small_beside_large();
	two_for_one();
	return done(10);
}
