/* SPDX-License-Identifier: MIT */
/*
 * The soak: workers publish, look up, load and fork, while they, the server
 * and the loaders are killed at random moments and the keeper is replaced
 * under them. Nothing that was published may be lost or changed, nobody may
 * hang, and in the end no byte may be left that nobody holds.
 *
 *	soak [--seconds N] [--seed N]
 *
 * A minute by default, or TARN_SOAK_SECONDS; by hand for longer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/store/store.h"
#include "tests/kit/daemon_helper.h"
#include "tests/soak/soak.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

/* No worker may be silent for so long. */
#define HANG_MS (SOAK_PATIENCE_MS + 60000)
#define KILL_EVERY_MS 40  /* on average */
#define SLOWER_MS 5       /* each time, until something was done */
#define EARLY_KILLS 3     /* of servers that may have served nothing */
#define UPGRADE_EVERY 100 /* kills, on average */
#define FILE_WORDS (1u << 20)

struct soak {
	struct soak_board *board;
	struct daemon daemon;
	uint64_t random;
	uint64_t workers_killed, servers_killed, loaders_killed, both_killed;
	uint64_t upgrades;
	/* That workers got before the last kill of a server; and how many
	 * servers were killed without one. */
	uint64_t answers;
	unsigned early_kills;
};

/* What all workers have done. */
struct sums {
	uint64_t opens, publishes, lookups, loads, retries;
};

static struct sums sum_up(const struct soak *soak)
{
	struct sums s = {0};

	for (unsigned i = 0; i < SOAK_WORKERS; i++) {
		const struct soak_worker *w = &soak->board->workers[i];

		s.opens += atomic_load(&w->opens);
		s.publishes += atomic_load(&w->publishes);
		s.lookups += atomic_load(&w->lookups);
		s.loads += atomic_load(&w->loads);
		s.retries += atomic_load(&w->retries);
	}
	return s;
}

/* ---- processes ------------------------------------------------------- */

static void start_worker(struct soak *soak, unsigned i)
{
	struct soak_worker *worker = &soak->board->workers[i];
	uint64_t seed = soak_random(&soak->random);
	pid_t pid;

	atomic_store(&worker->beat, soak_now_ms());
	pid = fork();
	if (pid == 0)
		soak_work(soak->board, i, seed);
	if (pid < 0)
		bail("fork: %s", strerror(errno));
	worker->pid = pid; /* the board is shared: not before the fork */
}

/* The pid of a child of the keeper that has this name; 0: there is none. */
static pid_t child_called(const struct soak *soak, const char *name)
{
	char path[64], list[4096], comm[32];
	char *word, *save = NULL;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children",
		(int)soak->daemon.pid, (int)soak->daemon.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, list, sizeof(list) - 1) : -1;
	close(fd);
	list[n > 0 ? n : 0] = '\0';
	for (word = strtok_r(list, " ", &save); word;
		word = strtok_r(NULL, " ", &save)) {
		snprintf(path, sizeof(path), "/proc/%s/comm", word);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd >= 0 ? read(fd, comm, sizeof(comm) - 1) : -1;
		close(fd);
		comm[n > 0 ? n - 1 : 0] = '\0';
		if (!strcmp(comm, name))
			return (pid_t)atoi(word);
	}
	return 0;
}

/* SIGHUP says that it was not the server's own fault, which would make the
 * keeper pause. */
static bool kill_child(const struct soak *soak, const char *name)
{
	pid_t pid = child_called(soak, name);
	bool killed = pid > 0 && kill(pid, SIGKILL) == 0;

	if (killed)
		kill(soak->daemon.pid, SIGHUP);
	return killed;
}

/* A few servers in a row may be killed before they serve anybody. If all were,
 * a machine on which they take long to begin would never get any further. */
static bool kill_server(struct soak *soak)
{
	struct sums now = sum_up(soak);

	if (now.opens + now.publishes != soak->answers)
		soak->early_kills = 0;
	if (soak->early_kills == EARLY_KILLS ||
		!kill_child(soak, "tarn-server"))
		return false;
	soak->answers = now.opens + now.publishes;
	soak->early_kills++;
	return true;
}

static void kill_worker(struct soak *soak)
{
	unsigned i = (unsigned)(soak_random(&soak->random) % SOAK_WORKERS);
	struct soak_worker *worker = &soak->board->workers[i];
	int status;

	kill(worker->pid, SIGKILL);
	waitpid(worker->pid, &status, 0);
	soak->workers_killed++;
	start_worker(soak, i);
}

static void kill_something(struct soak *soak)
{
	uint64_t dice = soak_random(&soak->random);

	if (dice % UPGRADE_EVERY == 0) {
		kill(soak->daemon.pid, SIGUSR2);
		soak->upgrades++;
		return;
	}
	switch (dice / UPGRADE_EVERY % 8) {
	case 0:
	case 1:
	case 2:
		kill_worker(soak);
		break;
	case 3:
		soak->loaders_killed += kill_child(soak, "tarn-loader");
		break;
	case 4:
		soak->both_killed += kill_server(soak);
		kill_worker(soak);
		break;
	default:
		soak->servers_killed += kill_server(soak);
	}
}

static void watch_workers(struct soak *soak)
{
	int status;

	for (unsigned i = 0; i < SOAK_WORKERS; i++) {
		struct soak_worker *worker = &soak->board->workers[i];

		if (soak_now_ms() > atomic_load(&worker->beat) + HANG_MS)
			soak_fault(soak->board,
				"worker %u has been silent for "
				"%d s",
				i, HANG_MS / 1000);
		if (waitpid(worker->pid, &status, WNOHANG) == worker->pid) {
			soak_fault(soak->board,
				"worker %u ended by itself "
				"(status %#x)",
				i, (unsigned)status);
			start_worker(soak, i);
		}
	}
	if (waitpid(soak->daemon.pid, &status, WNOHANG) == soak->daemon.pid)
		bail("the daemon ended with status %#x", (unsigned)status);
}

static void stop_workers(struct soak *soak)
{
	uint64_t until = soak_now_ms() + HANG_MS;
	unsigned left = SOAK_WORKERS;

	atomic_store(&soak->board->stop, true);
	while (left && soak_now_ms() < until) {
		left = 0;
		for (unsigned i = 0; i < SOAK_WORKERS; i++) {
			struct soak_worker *worker = &soak->board->workers[i];

			if (worker->pid && waitpid(worker->pid, NULL,
						   WNOHANG) == worker->pid)
				worker->pid = 0;
			left += worker->pid != 0;
		}
		usleep(10000);
	}
	is_int(0, left, "no worker hangs at the end");
	for (unsigned i = 0; i < SOAK_WORKERS; i++)
		if (soak->board->workers[i].pid)
			kill(soak->board->workers[i].pid, SIGKILL);
}

/* ---- the beginning ---------------------------------------------------- */

static void make_file(const char *path, unsigned which)
{
	char header[256];
	uint64_t n = (uint64_t)snprintf(header + 8, sizeof(header) - 8,
		"{\"x\":{\"dtype\":\"U64\",\"shape\":[%u],"
		"\"data_offsets\":[0,%u]}}",
		FILE_WORDS, FILE_WORDS * 8);
	FILE *f = fopen(path, "w");

	if (!f)
		bail("%s: %s", path, strerror(errno));
	while (n % 8) /* words at their own alignment */
		header[8 + n++] = ' ';
	memcpy(header, &n, 8);
	fwrite(header, 1, n + 8, f);
	for (uint64_t i = 0; i < FILE_WORDS; i++) {
		uint64_t word = i + which;

		fwrite(&word, 1, sizeof(word), f);
	}
	if (fclose(f))
		bail("%s: %s", path, strerror(errno));
}

static void begin(struct soak *soak)
{
	soak->board = mmap(NULL, sizeof(*soak->board), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (soak->board == MAP_FAILED)
		bail("mmap: %s", strerror(errno));
	daemon_start(&soak->daemon, "soak.sock",
		(const char *[]) {"--idle", "2", NULL});
	snprintf(soak->board->socket, sizeof(soak->board->socket), "%s",
		soak->daemon.socket);
	for (unsigned i = 0; i < SOAK_FILES; i++) {
		snprintf(soak->board->files[i], sizeof(soak->board->files[i]),
			"%s/soak%u.safetensors", test_tmpdir(), i);
		make_file(soak->board->files[i], i);
	}
	for (unsigned i = 0; i < SOAK_WORKERS; i++)
		start_worker(soak, i);
}

/* ---- the end ---------------------------------------------------------- */

/* Everything that the board says was published, and each set whole. */
static void verify_all(struct soak *soak, tarn_store *store)
{
	unsigned torn = 0, failed = 0;

	for (unsigned row = 0; row < SOAK_NAMES; row++) {
		static uint64_t number, first;
		tarn_tensor *tensor = NULL;

		failed += !soak_look(soak->board, store, row, &tensor);
		if (!tensor || soak_verify(tensor, row, &number))
			number = 0;
		tarn_tensor_unref(tensor);
		if (row % SOAK_SET == 0)
			first = number;
		/* A removal is name by name: it may have been cut short. */
		torn += number && first && number != first;
	}
	is_int(0, failed, "every look-up is answered");
	is_int(0, torn, "no set of names is torn");
}

static int run_check(const struct soak *soak)
{
	const char *tarn = getenv("TARN");
	pid_t pid;
	int status;

	if (!tarn)
		return -1;
	setenv("TARN_SOCKET", soak->daemon.socket, 1);
	pid = fork();
	if (pid == 0) {
		dup2(2, 1);
		execl(tarn, "tarn", "check", NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void remove_all(tarn_store *store)
{
	char name[32];

	for (unsigned row = 0; row < SOAK_NAMES; row++) {
		soak_name(row, name);
		may_fail(tarn_store_remove(store, name));
	}
}

/* Bytes that are used although no name stands and no client holds any; what
 * is cached goes with the idle time. */
static int64_t leaked(tarn_store *store)
{
	struct tarn_report_daemon status;
	uint64_t until = soak_now_ms() + HANG_MS;
	int r;

	do {
		usleep(100000);
		r = report_daemon(store, &status);
	} while ((r < 0 || status.used) && soak_now_ms() < until);
	return r < 0 ? -1 : (int64_t)status.used;
}

static void print_totals(const struct soak *soak, uint64_t seconds)
{
	struct sums s = sum_up(soak);

	diag("%llu s: killed %llu clients, %llu servers, %llu loaders, %llu "
	     "times both, %llu upgrades",
		(unsigned long long)seconds,
		(unsigned long long)soak->workers_killed,
		(unsigned long long)soak->servers_killed,
		(unsigned long long)soak->loaders_killed,
		(unsigned long long)soak->both_killed,
		(unsigned long long)soak->upgrades);
	diag("%llu sets published, %llu look-ups, %llu loads, %llu calls that "
	     "ended with an error",
		(unsigned long long)s.publishes, (unsigned long long)s.lookups,
		(unsigned long long)s.loads, (unsigned long long)s.retries);
	ok(s.publishes && s.lookups && s.loads,
		"sets were published, looked up and loaded");
}

/* The last kill or upgrade may still be under way. */
static tarn_store *open_at_last(const struct soak *soak)
{
	uint64_t until = soak_now_ms() + SOAK_PATIENCE_MS;
	tarn_store *store = NULL;
	int r;

	while ((r = tarn_store_open(soak->daemon.socket, NULL, &store)) < 0 &&
		soak_now_ms() < until)
		usleep(10000);
	is_int(0, r, "the daemon serves on");
	if (r < 0)
		bail("%s", tarn_error_message());
	store->connection.timeout_ms = SOAK_PATIENCE_MS;
	return store;
}

static void finish(struct soak *soak, uint64_t seconds)
{
	tarn_store *store;

	stop_workers(soak);
	print_totals(soak, seconds);
	store = open_at_last(soak);
	verify_all(soak, store);
	is_int(0, run_check(soak), "tarn check finds no fault");
	remove_all(store);
	is_int(0, leaked(store), "no byte is leaked");
	is_int(0, run_check(soak), "tarn check finds no fault at the end");
	tarn_store_unref(store);
	is_int(0, atomic_load(&soak->board->faults),
		"no worker reports a fault: %s",
		soak->board->fault[0] ? soak->board->fault : "none");
	is_int(0, daemon_stop(&soak->daemon),
		"the daemon ends without an error");
	for (unsigned i = 0; i < SOAK_FILES; i++)
		unlink(soak->board->files[i]);
}

/* Kills until that time, and until each kind of work was done once: slower and
 * slower as long as that takes. Returns when it ended. */
static uint64_t storm(struct soak *soak, uint64_t end)
{
	uint64_t now, next = soak_now_ms() + 500, slow = 0;
	bool enough = false;

	while (!atomic_load(&soak->board->faults) &&
		((now = soak_now_ms()) < end ||
			(!enough && now < end + SOAK_PATIENCE_MS))) {
		if (now >= next) {
			struct sums s = sum_up(soak);

			enough = s.publishes && s.lookups && s.loads;
			slow = enough ? 0 : slow + SLOWER_MS;
			kill_something(soak);
			next = now + soak_random(&soak->random) %
					     (2 * KILL_EVERY_MS + slow);
		}
		watch_workers(soak);
		usleep(1000);
	}
	return soak_now_ms();
}

int main(int argc, char **argv)
{
	static struct soak soak;
	const char *minute = getenv("TARN_SOAK_SECONDS");
	uint64_t seconds = minute ? strtoull(minute, NULL, 0) : 60;
	uint64_t begun;

	soak.random = (uint64_t)getpid() ^ soak_now_ms() << 20;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seconds"))
			seconds = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			soak.random = strtoull(argv[i + 1], NULL, 0);
		else
			bail("usage: soak [--seconds N] [--seed N]");
	}
	diag("seed %llu", (unsigned long long)soak.random);
	begin(&soak);
	begun = soak_now_ms();
	finish(&soak, (storm(&soak, begun + seconds * 1000) - begun) / 1000);
	return done(10);
}
