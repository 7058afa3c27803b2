/* SPDX-License-Identifier: MIT */
/*
 * Servers, loaders and clients are killed at random while others publish,
 * load, look up and remove:
 *
 *	restart_storm [SECONDS]
 *
 * Each client knows what must stand under its own names. Whatever was
 * answered stands, with the right bytes; what ended with an error stands or
 * not, but never half; what is held never changes; a publication raises its
 * version by one, however often it was sent. In the end all of it is removed,
 * and not one byte is left taken.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

enum { WORKERS = 3, SLOTS = 6, HELD = 4, FILES = 2, SIZE_MAX_ = 60000 };
enum { FILE_SIZE = 1500000, SECONDS = 6 };

/* What all processes count together. */
static struct shared {
	_Atomic int stop;
	_Atomic long n_publishes, n_loads, n_lookups, n_removals, n_lost;
} * shared;

static struct daemon daemon_;
static char files[WORKERS][FILES][300];

/* What may stand under a name: seed 0 is nothing. The size follows. */
struct slot {
	char name[40];
	uint32_t seed, other; /* other counts if unsure */
	bool unsure;
	uint64_t version; /* 0: not known */
};

struct held {
	tarn_tensor *tensor;
	uint32_t seed;
};

static struct worker {
	int number;
	uint32_t last_seed;
	uint64_t random;
	tarn_store *store;
	struct slot slots[SLOTS];
	struct held held[HELD];
} me;

static uint32_t draw(uint32_t n)
{
	me.random = me.random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(me.random >> 33) % n;
}

/* Files have the lowest seeds. */
static uint64_t size_of(uint32_t seed)
{
	return seed <= WORKERS * FILES ? FILE_SIZE
				       : 1 + seed * 7919 % SIZE_MAX_;
}

static _Noreturn void wrong(const struct slot *slot, const char *what)
{
	fprintf(stderr, "# worker %d: %s: %s (seed %u, or %u if %d): %s\n",
		me.number, slot->name, what, slot->seed, slot->other,
		slot->unsure, tarn_error_message());
	_exit(1);
}

static void stands(struct slot *slot, uint32_t seed)
{
	slot->seed = seed;
	slot->unsure = false;
}

/* It ended with an error: what it was for stands or not. */
static void lost(struct slot *slot, int r, uint32_t seed)
{
	/* The call gives up after ten seconds if servers are slow to begin. */
	if (r != -ECONNRESET && r != -ETIMEDOUT)
		wrong(slot, "an error that nobody expects");
	shared->n_lost++;
	/* Of three possible states only two can be remembered. */
	if (slot->unsure)
		_exit(2);
	slot->other = seed;
	slot->unsure = true;
	slot->version = 0;
}

/* Nobody else publishes there. */
static void check_version(const struct slot *slot, uint64_t version)
{
	if (slot->version && version != slot->version + 1)
		wrong(slot, "published more than once");
	if (!slot->seed && !slot->unsure && version != 1)
		wrong(slot, "published where nothing was, not as the first");
}

static void publish(struct slot *slot)
{
	struct tarn_publish_item item = {.name = slot->name};
	uint64_t version = 0;
	uint32_t seed = ++me.last_seed;
	int64_t size = (int64_t)size_of(seed);
	unsigned char *p;
	int r = tarn_store_create(me.store, TARN_U8, 1, &size, 0, &item.tensor);

	if (r < 0)
		wrong(slot, "no tensor could be created");
	p = tarn_tensor_data(item.tensor);
	for (int64_t i = 0; i < size; i++)
		p[i] = made_byte((uint64_t)i, seed);
	r = tarn_store_publish(me.store, &item, 1, NULL, &version);
	tarn_tensor_unref(item.tensor);
	if (r < 0)
		return lost(slot, r, seed);
	check_version(slot, version);
	stands(slot, seed);
	slot->version = version;
	shared->n_publishes++;
}

static void load(struct slot *slot)
{
	char prefix[40];
	uint32_t file = draw(FILES);
	uint32_t seed = 1 + (uint32_t)me.number * FILES + file;
	uint64_t version;
	int r;

	snprintf(prefix, sizeof(prefix), "%.*s", (int)strlen(slot->name) - 2,
		slot->name);
	r = tensor_load(me.store, files[me.number][file], prefix);
	/* Two of its loaders were killed: it is told so, and not done. */
	if (r == -EIO)
		r = -ECONNRESET;
	if (r < 0)
		return lost(slot, r, seed);
	if (tarn_store_version(me.store, slot->name, &version) < 0)
		wrong(slot, "what was loaded has no version");
	check_version(slot, version);
	stands(slot, seed);
	slot->version = version;
	shared->n_loads++;
}

static void drop(struct slot *slot)
{
	int r = tarn_store_remove(me.store, slot->name);

	if (r == -ENOENT && slot->seed && !slot->unsure)
		wrong(slot, "it is gone");
	if (r < 0 && r != -ENOENT)
		return lost(slot, r, 0);
	stands(slot, 0);
	slot->version = 0;
	shared->n_removals++;
}

static void hold(tarn_tensor *tensor, uint32_t seed)
{
	struct held *held = &me.held[draw(HELD)];

	if (held->tensor &&
		!tensor_is(held->tensor, held->seed, size_of(held->seed)))
		wrong(&me.slots[0], "what was held has changed");
	tarn_tensor_unref(held->tensor);
	*held = (struct held) {tensor, seed};
}

static bool is_seed(const tarn_tensor *t, uint32_t seed)
{
	return seed && tensor_is(t, seed, size_of(seed));
}

static void look_up(struct slot *slot)
{
	tarn_tensor *t = NULL;
	int r = tarn_store_lookup(me.store, slot->name, &t);

	shared->n_lookups++;
	if (r == -ECONNRESET || r == -ETIMEDOUT)
		return; /* it had to ask for a segment, twice or for long */
	if (r == -ENOENT) {
		if (slot->seed && !(slot->unsure && !slot->other))
			wrong(slot, "it was not found");
		return;
	}
	if (r < 0)
		wrong(slot, "it cannot be looked up");
	if (is_seed(t, slot->seed))
		return hold(t, slot->seed);
	if (slot->unsure && is_seed(t, slot->other))
		return hold(t, slot->other);
	wrong(slot, "other bytes");
}

/* ---- one worker --------------------------------------------------------- */

static void step(void)
{
	struct slot *slot = &me.slots[draw(SLOTS)];

	switch (draw(10)) {
	case 0:
	case 1:
	case 2:
		return publish(slot);
	case 3:
		return drop(slot);
	case 4:
		return load(slot);
	default:
		return look_up(slot);
	}
}

/* What another of the same number has left. */
static void begin(void)
{
	if (tarn_store_open(daemon_.socket, NULL, &me.store) < 0)
		_exit(3);
	for (int i = 0; i < SLOTS; i++) {
		struct slot *slot = &me.slots[i];
		int r;

		snprintf(slot->name, sizeof(slot->name), "w%d/%d/x", me.number,
			i);
		do
			r = tarn_store_remove(me.store, slot->name);
		while (r == -ECONNRESET || r == -ETIMEDOUT);
		if (r < 0 && r != -ENOENT)
			wrong(slot, "it cannot be removed");
	}
}

static pid_t start(int number, uint32_t turn)
{
	pid_t parent = getpid(), pid;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	me = (struct worker) {.number = number,
		.last_seed = 1000 + turn * 1000000 + (uint32_t)number * 100000,
		.random = turn * 977 + (uint32_t)number * 31 + 7};
	begin();
	while (!shared->stop)
		step();
	for (int i = 0; i < HELD; i++)
		hold(NULL, 0);
	_exit(0);
}

/* ---- the storm ---------------------------------------------------------- */

static struct {
	long servers, loaders, clients;
} killed;

/* 0: nothing to complain of. 2: it could not go on without an answer; 3: it
 * came when nobody was there. */
static void bury(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid ||
		(WIFEXITED(status) && WEXITSTATUS(status) == 1))
		bail("a client has seen what must not be");
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		bail("a client died of signal %d", WTERMSIG(status));
}

/* No call has come to an end for so long that the next servers must live, or
 * those who wait give up, after ten seconds. */
static bool must_serve(void)
{
	static double since;
	static long ended;
	long n = shared->n_publishes + shared->n_loads + shared->n_removals +
		 shared->n_lost;

	if (n != ended || since == 0)
		since = seconds();
	ended = n;
	return seconds() - since > 2;
}

static void strike(pid_t *workers, uint32_t turn)
{
	uint32_t what = draw(20);
	int number = (int)draw(WORKERS);
	pid_t pid = 0;

	if (what < 15) {
		pid = must_serve() ? 0 : server_of(&daemon_);
		killed.servers += pid > 0;
	} else if (what < 18) {
		pid = child_named(daemon_.pid, "tarn-loader");
		killed.loaders += pid > 0;
	} else {
		kill(workers[number], SIGKILL);
		bury(workers[number]);
		workers[number] = start(number, turn);
		killed.clients++;
	}
	if (pid > 0)
		kill(pid, SIGKILL);
	/* Or the keeper would take a rest. */
	if (what < 15)
		kill(daemon_.pid, SIGHUP);
}

static void replace_the_dead(pid_t *workers, uint32_t turn)
{
	for (int i = 0; i < WORKERS; i++) {
		int status;

		if (waitpid(workers[i], &status, WNOHANG) != workers[i])
			continue;
		if (!WIFEXITED(status) || WEXITSTATUS(status) < 2)
			bail("client %d ended with status %#x", i, status);
		workers[i] = start(i, turn);
	}
}

static void storm(double length)
{
	pid_t workers[WORKERS];
	double end = seconds() + length;
	uint32_t turn = 1;

	for (int i = 0; i < WORKERS; i++)
		workers[i] = start(i, 0);
	for (; seconds() < end; turn++) {
		usleep(1000 + draw(40000));
		replace_the_dead(workers, turn);
		strike(workers, turn);
	}
	shared->stop = 1;
	for (int i = 0; i < WORKERS; i++)
		bury(workers[i]);
}

static void clear(tarn_store *store)
{
	struct tarn_publish_options all = {.replace = "w"};
	int r = tarn_store_publish(store, NULL, 0, &all, NULL);

	if (r < 0)
		diag("%s", tarn_error_message());
}

int main(int argc, char **argv)
{
	const char *const args[] = {"--budget", "256M", "--idle", "1", NULL};
	double length = argc > 1 ? atof(argv[1]) : SECONDS;
	struct tarn_report_daemon s = {0};
	tarn_store *store;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		bail("mmap: %m");
	me.random = (uint64_t)(seconds() * 1e6);
	for (uint32_t i = 0; i < WORKERS * FILES; i++) {
		char name[20];

		snprintf(name, sizeof(name), "file%u", i);
		snprintf(files[i / FILES][i % FILES], 300, "%s",
			tensor_file(name, i + 1, FILE_SIZE));
	}
	daemon_start(&daemon_, "s", args);
	storm(length);
	ok(true, "no client saw a wrong result");
	diag("%ld publications, %ld loads, %ld look-ups, %ld removals; %ld "
	     "calls lost; killed: %ld servers, %ld loaders, %ld clients",
		shared->n_publishes, shared->n_loads, shared->n_lookups,
		shared->n_removals, shared->n_lost, killed.servers,
		killed.loaders, killed.clients);
	kill(daemon_.pid, SIGHUP);
	if (tarn_store_open(daemon_.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	/* The last ones were killed a moment ago, with calls under way. */
	for (int i = 0; i < 6000 && s.clients != 1; i++) {
		usleep(10000);
		report_daemon(store, &s);
	}
	clear(store);
	ok(used_becomes(store, 0), "no byte is allocated at the end");
	report_daemon(store, &s);
	is_int(0, (int64_t)s.names, "no name is left at the end");
	is_int(0, (int64_t)s.storages, "no storage is left at the end");
	is_int(1, s.clients, "no client but this one is left at the end");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	remove_files();
	return done(6);
}
