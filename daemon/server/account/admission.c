/* SPDX-License-Identifier: MIT */
/*
 * Requests that wait for their turn.
 *
 * Loads and publications bring descriptors, and the server can have only so
 * many. So there is a limit to how many are under way. A request that finds it
 * reached waits, with its descriptors, until others have ended: its client is
 * told nothing of that. The other messages of its connection are answered
 * meanwhile; one process may have many threads, and one of them may cancel what
 * the others wait for.
 *
 * Each user has a queue. The next one to begin is the first of the user that
 * has the least under way, and the first request of a user begins in any case.
 * So no request waits behind those of another user, however many they are and
 * however long they take; those of one user begin in their order.
 *
 * Those that wait may have few descriptors, too. Of these a user may have as
 * many as others leave untaken: alone it gets half of them. A request beyond
 * that is not taken from its socket, and then what lies behind it in the same
 * socket waits, too. That is no deadlock: what is under way ends without it.
 * The client is told so (client/client.c), or its calls would give up.
 *
 * A WIRE_CANCEL of such a request lies behind it, as messages of a connection
 * are taken in their order. When there is room the request is taken and the
 * cancel with the next event, before the request can have done more than begin.
 * So the caller that cancels waits as long as a caller that does not would wait
 * for its load to begin, and no longer. To look for the cancel further back in
 * the socket would cost a look at each message for each that is held.
 *
 * Nothing here bounds what one connection may have under way, but for
 * publications, which wait for memory without any descriptor, and which a
 * client need not await one by one. The quotas of loads, descriptors and
 * requests bound the rest.
 */
#include "base/checked.h"
#include "daemon/server/server.h"

/* Of one connection. Picked: more than a process has threads that publish at
 * the same time. */
#define CLIENT_PUBLISHES_MAX 1024u

static struct admissions *admissions_of(const struct admission *a)
{
	return &a->user->server->admissions;
}

static uint32_t limit_of(const struct server *server, enum admission_kind kind)
{
	return kind == ADMISSION_LOADS ? server->limits.loads
				       : server->limits.publish_fds;
}

/* The last one that begins may bring as many descriptors as a message can. So
 * may the first one of each user. */
static bool has_room(const struct domain *user, enum admission_kind kind)
{
	const struct server *server = user->server;

	return server->admissions.all.n[kind] < limit_of(server, kind) ||
	       !user->account.admitted.n[kind];
}

/* Those that wait are first, also where there is room: it will soon be theirs. */
static bool must_wait(const struct domain *user, enum admission_kind kind)
{
	return user->server->admissions.n_waiting[kind] ||
	       !has_room(user, kind);
}

static void admit(struct admission *a)
{
	a->admitted = true;
	admissions_of(a)->all.n[a->kind] += a->n;
	a->user->account.admitted.n[a->kind] += a->n;
}

/* ---- the queues ---------------------------------------------------------- */

/* An empty file's load brings no descriptor. */
uint32_t admission_places(const struct admission *a)
{
	return MAX(a->n_fds, 1u);
}

static void enqueue(struct admission *a)
{
	struct admission_queue *queue = &a->user->account.waiting[a->kind];
	struct admissions *all = admissions_of(a);

	a->number = ++all->numbers;
	a->before = queue->last;
	*(a->before ? &a->before->next : &queue->first) = a;
	queue->last = a;
	a->waits = true;
	all->n_waiting[a->kind]++;
	all->all.waiting += admission_places(a);
	a->user->account.admitted.waiting += admission_places(a);
}

static void dequeue(struct admission *a)
{
	struct admission_queue *queue = &a->user->account.waiting[a->kind];
	struct admissions *all = admissions_of(a);

	*(a->before ? &a->before->next : &queue->first) = a->next;
	*(a->next ? &a->next->before : &queue->last) = a->before;
	a->before = a->next = NULL;
	a->waits = false;
	all->n_waiting[a->kind]--;
	all->all.waiting -= admission_places(a);
	a->user->account.admitted.waiting -= admission_places(a);
}

/* Of the user with the least under way; of several such users, the oldest. */
static bool is_before(const struct admission *a, const struct admission *b)
{
	uint32_t n = a->user->account.admitted.n[a->kind];
	uint32_t other = b->user->account.admitted.n[b->kind];

	return n < other || (n == other && a->number < b->number);
}

/* NULL: none waits, or there is no room. */
static struct admission *next_of(
	const struct server *server, enum admission_kind kind)
{
	struct admission *best = NULL;

	if (!server->admissions.n_waiting[kind])
		return NULL;
	for (const struct domain *user = server->domains; user;
		user = user->next) {
		struct admission *a = user->account.waiting[kind].first;

		if (a && (!best || is_before(a, best)))
			best = a;
	}
	return best && has_room(best->user, kind) ? best : NULL;
}

bool admission_ask(struct admission *a)
{
	if (a->n && must_wait(a->user, a->kind)) {
		enqueue(a);
		return false;
	}
	admit(a);
	return true;
}

void admission_end(struct admission *a)
{
	if (a->waits)
		dequeue(a);
	if (!a->admitted)
		return;
	a->admitted = false;
	admissions_of(a)->all.n[a->kind] -= a->n;
	a->user->account.admitted.n[a->kind] -= a->n;
}

static void begin(struct admission *a)
{
	struct domain *user = a->user;
	uint64_t began = loop_now();

	a->begin(a);
	quantum_spend(user, began);
}

/* One of each kind in a turn: what begins may take a while, and clients are
 * served in between. */
void admission_serve(struct server *server)
{
	bool more = false;

	for (int kind = 0; kind < ADMISSION_KINDS; kind++) {
		struct admission *a = next_of(server, kind);

		if (!a)
			continue;
		dequeue(a);
		admit(a);
		begin(a);
		more = true;
	}
	if (more)
		deadline_set(loop_deadlines(server->loop),
			&server->admissions.next, loop_now() + 1);
}

/* ---- in the socket ------------------------------------------------------- */

/* May the user have no more that waits? */
static bool is_full(const struct domain *user)
{
	const struct server *server = user->server;
	uint64_t n = server->admissions.all.waiting;

	return n + user->account.admitted.waiting >= server->limits.waiting;
}

/* The first one of a user begins in any case. */
static bool has_no_place(const struct domain *user, enum admission_kind kind)
{
	return is_full(user) && user->account.admitted.n[kind] &&
	       must_wait(user, kind);
}

bool admission_holds(const struct client *client)
{
	const struct domain *user = client->user;
	bool many = client->n_publishes >= CLIENT_PUBLISHES_MAX;

	if (!many && !is_full(user))
		return false;
	switch (wire_next_header(client->sock).type) {
	case WIRE_LOAD:
		return has_no_place(user, ADMISSION_LOADS);
	case WIRE_PUBLISH:
		return many || has_no_place(user, ADMISSION_PUBLISH_FDS);
	default:
		return false;
	}
}
