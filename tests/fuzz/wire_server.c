/* SPDX-License-Identifier: MIT */
/*
 * The server's loop is run by hand, turn by turn, in this thread. A descriptor
 * that is always ready keeps a turn from waiting. So the messages of an input
 * are received in the same order each time, and when no descriptor becomes
 * ready any more all of them have been handled.
 */
#include "tests/fuzz/wire_server.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/loop_internal.h"
#include "daemon/loop/psi.h"
#include "daemon/server/load/internal.h"
#include "daemon/server/publish/internal.h"
#include "shm/table_check.h"
#include "tests/fuzz/wire_channel.h"
#include "tests/fuzz/wire_keeper.h"
#include "tests/kit/tap.h"

#define PATIENCE 1000u /* rounds without an end */
#define RESTARTS_MAX 3u
#define WAIT_SECONDS 120 /* for what other threads and clocks have yet to do */

struct server server;

static struct config config;
static struct loop_watch *tick_watch;
static int tick;
static int begun_fds; /* before it all began */

void must(int r, const char *what)
{
	if (r < 0)
		bail("%s: %s", what, tarn_fail_message());
}

void make_pair(int *ret_server, int *ret_other)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC,
		    0, pair) < 0)
		bail("a socket pair: %m");
	*ret_server = pair[0];
	*ret_other = pair[1];
}

/* ---- what is held -------------------------------------------------------- */

uint32_t lease_index(uint64_t lease)
{
	return lease & ((1u << TABLE_INDEX_BITS) - 1);
}

void lease_judge(const struct table *table, uint64_t lease, const char *who)
{
	uint32_t index = lease_index(lease);
	uint64_t generation = lease >> TABLE_INDEX_BITS;
	uint64_t word = atomic_load(&table->storages[index].word);

	if (storage_word_generation(word) != generation ||
		storage_word_state(word) == STORAGE_FREE)
		bail("storage %u of generation %llu, which %s holds, is gone: "
		     "its word is %llx",
			index, (unsigned long long)generation, who,
			(unsigned long long)word);
}

static void judge_held(void)
{
	for (uint32_t i = 0; i < PEERS; i++) {
		const struct table *table = peer_table(&peers[i]);

		for (uint32_t k = 0; table && k < peers[i].n_slots; k++)
			if (peers[i].honest[k])
				lease_judge(
					table, peers[i].honest[k], "a client");
	}
	channels_judge(false);
}

/* ---- turns --------------------------------------------------------------- */

static void no_event(void *arg, unsigned ready)
{
}

static void turn(void)
{
	struct loop *loop = server.loop;

	loop->between_fn(loop->between_arg);
	must(loop->ops->turn(loop), "a turn");
	deadlines_run(&loop->deadlines, loop_now());
}

/* Does a thread of it work on something? */
static bool is_working(void)
{
	for (const struct domain *domain = server.domains; domain;
		domain = domain->next)
		for (const struct publish *p = domain->publishes; p;
			p = p->next)
			if (p->n_working)
				return true;
	return false;
}

void server_settle(void)
{
	unsigned quiet = 0, n = 0;

	while (quiet < 2) {
		bool moved = false;

		if (n++ > PATIENCE)
			bail("the server does not come to rest");
		turn();
		while (keeper_receive())
			moved = true;
		moved |= loaders_receive();
		for (uint32_t k = 0; k < PEERS; k++)
			moved |= peer_receive(&peers[k]);
		if (is_working()) {
			sched_yield();
			moved = true;
			n = 0;
		}
		quiet = moved ? 0 : quiet + 1;
	}
	judge_held();
}

/* ---- servers ------------------------------------------------------------- */

static void drop_nothing(void *arg)
{
}

/* One set serves all servers that this process plays. */
static void begin_closers(void)
{
	static bool begun;

	if (!begun)
		must(closers_begin(DOMAINS_MAX, drop_nothing, NULL), "closers");
	begun = true;
}

/* Returns the end of its socket that is the keeper's. */
static int make_server(uint32_t restarts)
{
	int keeper;

	memset(&config.common, 0xff, sizeof(config.common));
	setenv("TARN_ENGINE", "threads", 1); /* a ring takes long to be made */
	server = (struct server) {.start = {.config = &config,
					  .inherited = "",
					  .instance = 7,
					  .budget = REACH,
					  .reach = REACH,
					  .keeper_pid = getpid(),
					  .restarts = restarts},
		.next_job = 1,
		.serving = restarts == 0,
		.limits.loads = 64,
		.limits.more_leases = 4};
	make_pair(&server.start.sock, &keeper);
	server.started_at = loop_now();
	must(loop_new(&server.loop), "a loop");
	must(wire_writer_new(1 << 20, &server.writer), "a writer");
	must(loop_watch(server.loop, server.start.sock, LOOP_READ,
		     server_receive_keeper, &server, &server.keeper_watch),
		"the keeper");
	loop_between(server.loop, server_between_turns, &server);
	tick = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	must(loop_watch(
		     server.loop, tick, LOOP_READ, no_event, NULL, &tick_watch),
		"a tick");
	return keeper;
}

/* As server_run() ends, and also what was under way, which a server that ends by itself waits for. */
static void free_server(void)
{
	for (struct domain *domain = server.domains; domain;
		domain = domain->next)
		while (domain->clients)
			client_free(domain->clients);
	for (struct domain *domain = server.domains; domain;
		domain = domain->next) {
		while (domain->loading.loads)
			load_free(domain->loading.loads);
		domain_leave(domain);
	}
	while (server.domains) {
		struct domain *domain = server.domains;

		server.domains = domain->next;
		domain_free(domain);
	}
	segment_forget(&server);
	fd_reserve_give(&server);
	psi_unwatch(server.psi);
	fd_store_free(&server.fd_store);
	loop_unwatch(server.keeper_watch);
	loop_unwatch(tick_watch);
	fd_close(tick);
	wire_writer_free(server.writer);
	free(server.spare);
	loop_free(server.loop);
	fd_close(server.start.sock);
}

/* What it does while it is freed nobody hears of. */
static void mute(void)
{
	for (struct domain *domain = server.domains; domain;
		domain = domain->next)
		for (struct client *c = domain->clients; c; c = c->next) {
			_cleanup_fd_ int deaf = eventfd(0, EFD_CLOEXEC);

			if (deaf < 0 || dup3(deaf, c->sock, O_CLOEXEC) < 0)
				bail("a socket's place: %m");
		}
}

/* As by SIGKILL; and the next one takes over. */
static void die(void)
{
	uint32_t restarts = server.start.restarts + 1;

	if (restarts > RESTARTS_MAX)
		return;
	keeper_bury();
	mute();
	free_server();
	keeper_bring_all(make_server(restarts));
	server_settle();
}

/* ---- events -------------------------------------------------------------- */

/* What is next to be done is done early. */
static void pass_time(struct loop *loop)
{
	uint64_t at = deadlines_next(&loop->deadlines);

	if (at != UINT64_MAX)
		deadlines_run(&loop->deadlines, at);
}

void server_suffer(enum event event)
{
	if (event == TIME_PASSES)
		pass_time(server.loop);
	else if (event == SERVER_DIES)
		die();
	else
		keeper_suffer(event);
}

/* ---- the beginning ------------------------------------------------------- */

void server_begin(void)
{
	struct {
		struct wire_header head;
		struct msg_hello body;
	} hello = {{WIRE_MAGIC, WIRE_HELLO, 0, 1, sizeof(hello.body)},
		{.version = PROTOCOL_VERSION, .version_min = PROTOCOL_OLDEST}};

	begin_closers();
	begun_fds = count_fds(getpid());
	keeper_begin(make_server(0));
	keeper_make_domain(1, "pool");
	keeper_make_segment(1);
	keeper_make_domain(0, "");
	keeper_make_segment(0);
	for (uint32_t i = 0; i < PEERS; i++)
		peer_begin(i);
	peer_send(&peers[0], &hello, sizeof(hello), NULL, 0);
	server_settle();
}

/* ---- the end ------------------------------------------------------------- */

static void judge_books(const char *when)
{
	struct faults faults = {0};
	struct msg_checked sum = {0};

	must(self_check(&server, NULL, &faults, &sum), "a check");
	if (faults.n)
		bail("%s: %s", when, faults.lines[0]);
	faults_clear(&faults);
}

/* Clients that are gone hold nothing: named storages stay, and their memfds. That
 * their users are charged for these, and no more, is for judge_books. */
static void judge_empty(void)
{
	if (server.admissions.all.waiting)
		bail("%u requests wait for their turn",
			server.admissions.all.waiting);
	if (server.n_publishes || server.admissions.all.n[ADMISSION_LOADS])
		bail("%u publications, %u loads stay", server.n_publishes,
			server.admissions.all.n[ADMISSION_LOADS]);
	for (const struct domain *domain = server.domains; domain;
		domain = domain->next) {
		if (domain->storages.counts.kinds[KIND_FILLING].n)
			bail("storages that nobody waits for");
		channels_judge_unnamed(domain);
	}
	channels_judge(true);
}

/* Does it still owe a look, after one that took long, or at a client from whose
 * socket it does not read for a while? On a machine that has much else to do any
 * may. */
static bool is_behind(void)
{
	bool behind = server.n_clients > 0;

	for (const struct domain *domain = server.domains; domain;
		domain = domain->next)
		behind |= (domain->channels.left && domain->channels.first) ||
			  domain->storages.counts.kinds[KIND_LET_GO].n;
	return behind;
}

/* All clients have hung up. */
static void come_to_rest(void)
{
	double deadline = seconds() + WAIT_SECONDS;

	server_settle();
	while (is_behind()) {
		if (seconds() > deadline)
			bail("the server never looks at what was left; it has "
			     "%u clients",
				server.n_clients);
		usleep(1000);
		server_settle();
	}
}

void server_end(void)
{
	double deadline;

	server_settle();
	judge_books("in use");
	for (uint32_t i = 0; i < PEERS; i++)
		peer_hang_up(&peers[i]);
	come_to_rest();
	judge_empty();
	judge_books("left alone");
	free_server();
	keeper_end();
	channels_forget();
	/* The thread that closes what clients sent may come to it later. */
	deadline = seconds() + WAIT_SECONDS;
	while (count_fds(getpid()) != begun_fds) {
		if (seconds() > deadline)
			bail("%d descriptors are open, %d were",
				count_fds(getpid()), begun_fds);
		usleep(200);
	}
}
