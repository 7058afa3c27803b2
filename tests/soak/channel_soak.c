/* SPDX-License-Identifier: MIT */
/*
 * The soak of channels: producers and consumers of a queue and of a broadcast
 * that are killed anywhere, under a server that is killed now and then, and
 * consumers of the queue that are killed after it was closed. In the end every
 * item that was published has come as its mode promises, or is there for who
 * comes, no slot is lost, and the memory is back. TARN_SOAK_SECONDS, or
 * --seconds N.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "lib/store/store.h"
#include "tests/kit/channel.h"
#include "tests/soak/channel_soak.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

#define SLOTS 8
#define END_MS (SOAK_PATIENCE_S * 1000)
#define SLOWER_US 5000

struct kid {
	pid_t pid;
	int role;
};

static void start(struct kid *kid, int fd)
{
	char args[3][24];

	snprintf(args[0], sizeof(args[0]), "%d", kid->role);
	snprintf(args[1], sizeof(args[1]), "%d", fd);
	snprintf(args[2], sizeof(args[2]), "%u", soak_below(1u << 30));
	kid->pid = fork();
	if (kid->pid < 0)
		bail("fork: %m");
	if (kid->pid > 0)
		return;
	execl("/proc/self/exe", "channel_soak", "child", args[0], args[1],
		args[2], NULL);
	_exit(9);
}

static void stop_all(void *arg)
{
	struct kid *kids = arg;

	for (int i = 0; i < SOAK_CHILDREN; i++)
		if (kids[i].pid > 0)
			kill(kids[i].pid, SIGKILL);
}

/* Those of a role end by themselves. */
static int await_role(struct kid *kids, int role)
{
	int left = 0;

	for (int i = 0; i < SOAK_CHILDREN; i++) {
		int status = -1;

		if (kids[i].role != role)
			continue;
		for (int ms = 0; ms < END_MS; ms += 10) {
			if (waitpid(kids[i].pid, &status, WNOHANG) != 0)
				break;
			soak_nap_us(10000);
		}
		if (status == -1)
			kill(kids[i].pid, SIGKILL);
		left += status != 0;
		kids[i].pid = 0;
	}
	return left;
}

/* ---- the whole --------------------------------------------------------- */

static bool has_enough(void)
{
	return soak_board->done && soak_board->kept;
}

/* Until its time is over and there is something to judge. */
static bool goes_on(double end)
{
	double now = seconds();

	return !soak_board->faults &&
	       (now < end || (!has_enough() && now < end + SOAK_PATIENCE_S));
}

/* The next server is killed once this one has answered. */
static bool is_due(tarn_store *store, double at)
{
	struct tarn_report_daemon s;

	return seconds() > at && report_daemon(store, &s) >= 0;
}

/* Kills come more slowly until a child has lived long enough to do its part. */
static int soak(struct kid *kids, struct daemon *daemon, tarn_store *store,
	double duration, int fd)
{
	double end = seconds() + duration, server_at = seconds() + 0.7;
	uint32_t slow_us = 0;
	int kills = 0;

	while (goes_on(end)) {
		struct kid *kid = &kids[soak_below(SOAK_CHILDREN)];

		slow_us = has_enough() ? 0 : slow_us + SLOWER_US;
		soak_nap_us(2000 + soak_below(30000 + slow_us));
		if (soak_roles[kid->role].killed) {
			kill(kid->pid, SIGKILL);
			waitpid(kid->pid, NULL, 0);
			start(kid, fd);
			kills++;
		}
		if (is_due(store, server_at)) {
			server_kill(daemon);
			server_at = seconds() + 0.7;
		}
	}
	return kills;
}

static uint64_t used(tarn_store *store)
{
	struct tarn_report_daemon s;

	if (report_daemon(store, &s) < 0)
		bail("%s", tarn_error_message());
	return s.used;
}

static void judge(void)
{
	uint32_t done_ = 0, lost = 0, dropped = 0;
	uint32_t end = MIN((uint32_t)soak_board->next * 2 + 2, SOAK_ITEMS);

	for (uint32_t i = 0; i < end; i++) {
		done_ += soak_board->published[i] == DONE;
		lost += soak_board->published[i] == DONE &&
			!soak_board->seen[i];
		dropped += soak_board->published[i] == DONE &&
			   !soak_board->through[i];
	}
	ok(done_ > 0, "%u items were published, %u of them came again", done_,
		soak_board->again);
	is_int(0, lost, "every published item was received");
	is_int(0, dropped,
		"every item was received by a consumer that finished it");
	ok(soak_board->kept > 0, "%u items had a tensor of the pool",
		soak_board->kept);
	is_int(0, soak_board->faults, "no worker reports a fault%s%s",
		soak_board->faults ? ": " : "", soak_board->fault);
}

static bool all_free(void *arg)
{
	struct tarn_channel_info info = kit_channel_info(arg);

	return info.free == SLOTS && info.consumers == 0 && info.producers == 0;
}

static int make_board(void)
{
	int fd = memfd_create("board", 0); /* the children have it, too */

	if (fd < 0 || ftruncate(fd, sizeof(*soak_board)) < 0)
		bail("memfd: %m");
	soak_map_board(fd);
	return fd;
}

/* The witness starts first: it receives every item from the first on. */
static void start_all(struct kid *kids, int fd, tarn_channel *cast)
{
	int n = 0;

	for (int role = ROLES - 1; role >= 0; role--)
		for (int i = 0; i < soak_roles[role].n; i++)
			kids[n++] = (struct kid) {.role = role};
	at_bail(stop_all, kids);
	start(&kids[0], fd);
	while (kit_channel_info(cast).consumers == 0 && !soak_board->faults)
		soak_nap_us(1000);
	for (int i = 1; i < n; i++)
		start(&kids[i], fd);
}

/* Stopped with what they have in hand, until all others have seen the end. */
#define FROZEN (ROLES + 1)

static void freeze_some(struct kid *kids)
{
	int n = 1 + (int)soak_below(2);

	for (int i = 0; i < SOAK_CHILDREN && n > 0; i++) {
		if (kids[i].role != QUEUE_IN)
			continue;
		soak_nap_us(soak_below(3000));
		kill(kids[i].pid, SIGSTOP);
		kids[i].role = FROZEN;
		n--;
	}
}

static void kill_frozen(struct kid *kids)
{
	for (int i = 0; i < SOAK_CHILDREN; i++) {
		if (kids[i].role != FROZEN)
			continue;
		kill(kids[i].pid, SIGKILL);
		waitpid(kids[i].pid, NULL, 0);
		kids[i] = (struct kid) {.role = ROLES};
	}
}

static bool nobody_reads(void *channel)
{
	struct tarn_channel_info info = kit_channel_info(channel);

	return !info.consumers && !info.reading;
}

/* A late consumer finds the channel by its name. */
static void come_late(tarn_channel *queue, int fd)
{
	struct kid late[SOAK_CHILDREN] = {[0] = {.role = QUEUE_IN}};
	uint32_t ready;

	for (int i = 1; i < SOAK_CHILDREN; i++)
		late[i].role = ROLES;
	ok(kit_channel_comes_true(nobody_reads, queue),
		"no dead consumer reads any more");
	ready = kit_channel_info(queue).ready;
	diag("%u items are left by who died after the end", ready);
	if (ready)
		start(&late[0], fd);
	is_int(0, ready ? await_role(late, QUEUE_IN) : 0,
		"consumers that come late come to the end");
	is_int(0, kit_channel_info(queue).ready, "the queue has no items left");
}

static void end_all(struct kid *kids, int fd, tarn_channel *channels[2])
{
	freeze_some(kids);
	soak_board->stop = true;
	is_int(0, await_role(kids, QUEUE_OUT),
		"all producers end with status 0");
	is_int(0, await_role(kids, CAST_OUT), "all senders end with status 0");
	may_fail(tarn_channel_close(channels[0]));
	may_fail(tarn_channel_close(channels[1]));
	if (soak_below(2))
		kill_frozen(kids);
	is_int(0, await_role(kids, QUEUE_IN),
		"all consumers end with status 0");
	is_int(0, await_role(kids, CAST_IN),
		"all broadcast consumers end with status 0");
	is_int(0, await_role(kids, CAST_STAY),
		"the witness ends with status 0");
	kill_frozen(kids);
	come_late(channels[0], fd);
}

/* Nothing is left of it in the store, and the books are right. */
static void judge_store(
	tarn_store *store, tarn_channel *channels[2], uint64_t before)
{
	const struct tarn_publish_options below_w = {.replace = "w/"};
	struct tarn_check *check;

	for (int i = 0; i < 2; i++) {
		ok(kit_channel_comes_true(all_free, channels[i]),
			"%s: no slot is lost, and no participant is left",
			tarn_channel_name(channels[i]));
		may_fail(tarn_store_remove(
			store, tarn_channel_name(channels[i])));
		tarn_channel_unref(channels[i]);
	}
	/* Names that the dead had no time to remove. */
	if (tarn_store_publish(store, NULL, 0, &below_w, NULL) < 0)
		bail("%s", tarn_error_message());
	ok(used_becomes(store, before),
		"the memory of the channels is given back");
	if (tarn_store_check(store, &check) < 0)
		bail("%s", tarn_error_message());
	is_int(0, check->n_faults, "tarn check finds no fault at the end");
	tarn_check_free(check);
}

static void run(double duration)
{
	struct tarn_channel_options options = {
		.slots = SLOTS, .slot_bytes = 32768, .tensors = 3};
	struct kid kids[SOAK_CHILDREN];
	tarn_channel *channels[2];
	struct daemon daemon;
	tarn_store *store;
	uint64_t before;
	int fd = make_board();

	daemon_start(&daemon, "soak.sock", (const char *[]) {NULL});
	memcpy(soak_board->socket, daemon.socket, sizeof(soak_board->socket));
	store = kit_channel_store(daemon.socket);
	store->connection.timeout_ms = SOAK_PATIENCE_S * 1000;
	before = used(store);
	channels[0] = kit_channel_open(store, "queue", &options);
	options.mode = TARN_CHANNEL_BROADCAST;
	channels[1] = kit_channel_open(store, "cast", &options);
	start_all(kids, fd, channels[1]);
	diag("%d killed in %g seconds",
		soak(kids, &daemon, store, duration, fd), duration);
	end_all(kids, fd, channels);
	judge();
	judge_store(store, channels, before);
	tarn_store_unref(store);
	close(fd);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
}

int main(int argc, char **argv)
{
	const char *text = getenv("TARN_SOAK_SECONDS");

	if (argc == 5)
		return soak_child(atoi(argv[2]), atoi(argv[3]),
			strtoull(argv[4], NULL, 10));
	soak_rng = (uint64_t)getpid();
	run(argc == 3 ? atof(argv[2]) : text ? atof(text) : 3);
	return done(18);
}
