/* SPDX-License-Identifier: MIT */
/*
 * Two pools that grow at the same time.
 *
 *	1. a load needs many segments of a pool; the first is being populated
 *	2. a load into another pool needs one: it has its turn after the first
 *	   or second, and is served long before the large one
 *	3. two loads need many segments each, and the budget holds one of them:
 *	   one is served, the other is refused with the budget. Were each given
 *	   a segment in turn without a look at what the other still needs, both
 *	   would fail
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define LARGE (512 * MIB) /* 32 segments */
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

/* To load a file of zeros under that name. */
static void ask(struct raw *raw, const char *name, uint64_t size)
{
	struct order order = {0};
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		bail("%s: %m", path);
	unlink(path);
	order_range(&order, 0, size, 0);
	order_bytes(&order, name, (int64_t)size);
	if (order_send(&order, raw, fd, -1) < 0)
		bail("the load cannot be asked for");
	close(fd);
}

/* The process that populates a segment, stopped in its work; 0: none was seen
 * before the load was done. */
static pid_t stop_populator(struct raw *raw)
{
	double end = seconds() + PATIENCE_S;
	pid_t pid;
	int heard;

	do {
		pid = child_named(daemon_.pid, "tarn-populate");
		if (pid > 0 && kill(pid, SIGSTOP) == 0)
			return pid;
		heard = raw_receive(raw, 0);
		if (heard == WIRE_LOADED)
			return 0;
	} while ((heard == -1 || heard == WIRE_LOADING) && seconds() < end);
	bail("no memory is made for the load: %s", raw->text);
}

/* The server has asked the keeper for the memory of this client's load when it
 * answers what the client asks after it. */
static void await_growth(struct raw *raw)
{
	if (raw_send(raw, WIRE_REMOVE, "nothing", 7, NULL, 0) < 0 ||
		raw_answer(raw) != WIRE_ERROR)
		bail("removing nothing: %s", raw->text);
}

/* ---- what came first ------------------------------------------------------ */

/* Lines of the first domain's segments that were logged, up to another domain's
 * first. */
static int lines_of_first(bool *ret_another)
{
	FILE *f = fopen(log_path, "re");
	char line[1024];
	unsigned first = 0, domain;
	int n = 0;

	if (!f)
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

static void small_beside_large(void)
{
	struct raw large, small;
	int n, before, heard;
	bool another;
	pid_t pid;

	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	daemon_log_to(log_path);
	start("1G");
	daemon_log_to(NULL);
	raw_open_pool(&large, daemon_.socket, "one");
	raw_open_pool(&small, daemon_.socket, "two");
	ask(&large, "large", LARGE);
	pid = stop_populator(&large);
	if (!pid) {
		raw_close(&large);
		raw_close(&small);
		daemon_stop(&daemon_);
		unlink(log_path);
		skip_all("32 segments were populated before that was seen");
	}
	ask(&small, "small", MIB);
	await_growth(&small);
	/* On a loaded machine several were made before the stop. */
	before = lines_of_first(&another);
	kill(pid, SIGCONT);
	is_int(WIRE_LOADED, raw_answer(&small), "the small load is served");
	do
		heard = raw_receive(&large, 0);
	while (heard == WIRE_LOADING);
	is_int(-1, heard, "the large load is not done by then");
	n = lines_of_first(&another) - before;
	ok(another && n > 0 && n <= TURNS_MOST,
		"the small pool has its turn after %d of %d segments", n,
		32 - before);
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
	pid_t pid;

	start("200M");
	raw_open_pool(&one, daemon_.socket, "one");
	raw_open_pool(&two, daemon_.socket, "two");
	ask(&one, "first", HALF);
	pid = stop_populator(&one);
	ask(&two, "second", HALF);
	await_growth(&two);
	if (pid)
		kill(pid, SIGCONT);
	is_int(WIRE_LOADED, raw_answer(&one),
		"the first of two that do not fit together is served");
	is_int(WIRE_ERROR, raw_answer(&two), "the second is refused");
	is_int(ENOSPC, two.error, "the error of the second is ENOSPC");
	has_str("budget of 200.0 MiB", two.text,
		"the error of the second names the budget");
	ask(&two, "third", 64 * MIB);
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
	return done(11);
}
