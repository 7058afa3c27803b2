/* SPDX-License-Identifier: MIT */
/*
 * The life of a publication.
 *
 * The idea: first each source gets the bytes that it will stay in, under an
 * entry that is FILLING, which may have to wait for memory; then, when all are
 * ready, everything becomes visible with one store, without waiting. So what
 * fails on the way was never seen by anybody, and what a dead server leaves is
 * dropped by the next one because it is FILLING.
 */
#include "daemon/server_publish_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"

#define PAGE 4096ull
#define CLIENT_PUBLISHES_MAX 64u /* that wait, of one connection; picked */

/* ---- ends ------------------------------------------------------------ */

static void detach(struct publish *p)
{
	if (p->client && p->joined) {
		p->client->n_publishes--;
		p->client->publish_bytes -= p->message.size;
	}
	p->client = NULL;
	p->asked_to_grow = false;
}

static void source_free(struct publish *p, struct source *s)
{
	if (s->made)
		storage_release(p->rule, s->index);
	closer_close(p->closer, s->fd);
	free(s->pieces);
}

/* It counts nowhere any more. */
static void leave(struct publish *p)
{
	struct rule *rule = p->rule;
	struct publish **q;

	for (q = &rule->publishes; *q != p; q = &(*q)->next)
		;
	*q = p->next;
	rule->server->n_publishes--;
	rule->server->n_publish_fds -= p->n_fds;
	p->home->n_publish_fds -= p->n_fds;
	quota_return(p->home, QUOTA_REQUESTS, p->message.size);
	quota_return(p->home, QUOTA_DESCRIPTORS, p->n_fds);
}

/* What the worker has is freed when that is done with it. */
static void publish_end(struct publish *p)
{
	detach(p);
	if (p->n_working)
		return;
	if (p->joined)
		leave(p);
	for (uint32_t i = 0; i < p->n_sources; i++)
		source_free(p, &p->sources[i]);
	for (int i = 0; i < p->message.n_fds; i++)
		closer_close(p->closer, wire_take_fd(&p->message, i));
	wire_message_clear(&p->message);
	free(p->sources);
	free(p);
}

/* Ends with this thread's last sentence. Who is refused for now asks again in a
 * moment, and would fill the log. */
static void refuse(struct publish *p, int error)
{
	if (!p->for_now)
		log_warning("publish_failed", log_u64("names", p->names.n),
			log_text("error", tarn_fail_message()));
	if (p->client)
		(p->for_now ? client_refuse_for_now : client_refuse)(
			p->client, p->serial, error);
	publish_end(p);
}

/* ---- bytes ----------------------------------------------------------- */

int publish_take_memory(struct publish *p, struct source *s, bool may_grow)
{
	struct rule *rule = p->rule;
	struct table_storage entry = {
		.pool = rule->number,
		.owner = p->uid,
		.size = s->size,
		.alloc_size = (s->size + PAGE - 1) & ~(PAGE - 1),
		.flags = STORAGE_CREATED,
	};
	int r = 1;

	if (s->made)
		return 1;
	r = quota_make_room(p->home, QUOTA_BYTES, entry.alloc_size);
	if (r < 0)
		return r;
	r = 1;
	if (entry.alloc_size)
		r = memory_take(rule, entry.alloc_size, may_grow,
			&p->asked_to_grow, &entry.alloc_offset);
	if (r != 1)
		return r;
	entry.base = entry.alloc_offset;
	r = storage_new(
		rule, &entry, STORAGE_FILLING, &s->index, &s->generation);
	if (r < 0 && entry.alloc_size)
		alloc_give(rule->alloc, entry.alloc_offset, entry.alloc_size);
	s->made = r == 0;
	return r < 0 ? r : 1;
}

/* What lies behind the last byte is no earlier owner's. */
static void write_bytes(struct publish *p, struct source *s)
{
	const struct table_storage *e = &p->rule->table.storages[s->index];

	pool_write(p->rule, e->base, s->bytes, s->size);
	pool_write(p->rule, e->base + s->size, NULL, e->alloc_size - s->size);
}

static int from_bytes(struct publish *p, struct source *s, bool may_grow)
{
	int r = publish_take_memory(p, s, may_grow);

	if (r == 1)
		write_bytes(p, s);
	return r;
}

/* 1: its bytes are where they will stay; 0: wait; or an error. */
static int make_ready(struct publish *p, struct source *s, bool may_grow)
{
	int r = 1;

	if (s->ready || s->working)
		return s->ready;
	if (s->kind == SOURCE_BYTES)
		r = from_bytes(p, s, may_grow);
	else if (s->kind != SOURCE_EXISTING)
		r = publish_from_fd(p, s, may_grow);
	s->ready = r == 1;
	return r;
}

/* ---- going on -------------------------------------------------------- */

static int make_all_ready(struct publish *p, bool may_grow)
{
	int all = 1;

	for (uint32_t i = 0; i < p->n_sources; i++) {
		int r = make_ready(p, &p->sources[i], may_grow);

		if (r < 0)
			return r;
		all &= r;
	}
	return all;
}

/* Frees it when it has come to an end. */
static void go_on(struct publish *p)
{
	int r = make_all_ready(p, true);

	bool ready = r == 1;

	if (ready)
		r = publish_commit(p);
	if (r < 0)
		return refuse(p, r);
	if (ready)
		publish_end(p);
}

static void work_done(struct work *work)
{
	struct source *s =
		(struct source *)((char *)work - offsetof(struct source, work));
	struct publish *p = s->publish;

	s->working = false;
	s->worked = true;
	p->n_working--;
	if (p->client)
		go_on(p);
	else
		publish_end(p);
}

int publish_give_work(
	struct publish *p, struct source *s, void (*run)(struct work *work))
{
	int r;

	s->work = (struct work) {.run = run, .done = work_done};
	r = worker_give(p->rule->worker, &s->work);
	s->working = r == 0;
	p->n_working += r == 0;
	return r;
}

void publish_go_on(struct rule *rule, bool freed)
{
	struct publish *p, *next;

	for (p = rule->publishes; p; p = next) {
		next = p->next;
		p->parked &= !freed;
		if (p->client && !p->parked)
			go_on(p);
	}
}

void publish_have_memory(struct rule *rule)
{
	for (struct publish *p = rule->publishes; p; p = p->next)
		p->asked_to_grow = false;
}

/* The keeper has none: who asked makes do with what can be evicted, waits for
 * what comes back soon, or fails with the keeper's sentence. */
void publish_no_memory(struct rule *rule, int error)
{
	_cleanup_free_ char *why = strdup(tarn_fail_message());
	struct publish *p;

	for (p = rule->publishes; p && !p->asked_to_grow; p = p->next)
		;
	if (!p)
		return;
	p->asked_to_grow = false;
	if (make_all_ready(p, false) >= 0)
		return go_on(p);
	p->parked = room_comes_back(rule, &p->park_until);
	if (!p->parked) {
		tarn_fail_verbatim(error, why ? why : "out of memory");
		refuse(p, error);
	}
}

/* Who has waited long enough asks once more, and is told what the keeper then
 * says. True: somebody has. */
bool publish_unpark(struct rule *rule, uint64_t now, uint64_t *next)
{
	bool due = false;

	for (struct publish *p = rule->publishes; p; p = p->next)
		due |= room_unpark(&p->parked, p->park_until, now, next);
	return due;
}

/* ---- the client ------------------------------------------------------ */

/* The last one that may begin brings all that a message can. And so may the
 * first one of each user: what others have under way, which may be for long,
 * stands in nobody's way. */
static int check_descriptors(const struct publish *p)
{
	const struct server *server = p->rule->server;

	if (!p->n_fds || !p->home->n_publish_fds ||
		server->n_publish_fds < server->publish_fds_max)
		return 0;
	return tarn_fail(EBUSY,
		"publications with %u descriptors are under way, %u of them "
		"uid %u's, and %u are the limit with so few descriptors "
		"(ulimit -n of the daemon); wait for one",
		server->n_publish_fds, p->home->n_publish_fds, p->uid,
		server->publish_fds_max);
}

static int check_start(const struct publish *p)
{
	const struct client *client = p->client;
	uint32_t size = p->message.size;

	if (client->rule->server->draining)
		return tarn_fail(ESHUTDOWN, "the daemon is ending; start it "
					    "again and publish again");
	if (client->n_publishes >= CLIENT_PUBLISHES_MAX ||
		client->publish_bytes + size > WIRE_MESSAGE_MAX)
		return tarn_fail(EBUSY,
			"%u publications of this connection, with %llu bytes "
			"of names, wait for memory, which is the limit; wait "
			"for one",
			client->n_publishes,
			(unsigned long long)client->publish_bytes);
	return check_descriptors(p);
}

/* What it is too busy for ends: then it may be asked again. */
static int may_start(struct publish *p)
{
	int r = check_start(p);

	p->for_now = r == -EBUSY;
	return r;
}

/* From here on it counts. */
static int join(struct publish *p)
{
	struct publish **q;
	int r = quota_charge_message(p->home, &p->message);

	if (r < 0)
		return r;
	for (q = &p->rule->publishes; *q; q = &(*q)->next)
		;
	*q = p;
	p->rule->server->n_publishes++;
	p->rule->server->n_publish_fds += p->n_fds;
	p->home->n_publish_fds += p->n_fds;
	p->client->n_publishes++;
	p->client->publish_bytes += p->message.size;
	p->joined = true;
	return 0;
}

static struct publish *publish_new(
	struct client *client, struct wire_message *message)
{
	struct publish *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->rule = client->rule;
	p->home = client->home;
	p->n_fds = (uint32_t)message->n_fds;
	p->client = client;
	p->closer = client->home->closer;
	p->uid = client->uid;
	p->serial = message->serial;
	p->token = client->number << 32 | message->serial;
	p->message = *message;
	*message = (struct wire_message) {0};
	return p;
}

/* What was done, or may have been, is told of before anything may refuse: who
 * hears of a limit asks once more, and would undo what others did since. Who
 * asks for the first time is told to wait before it is read, which takes long
 * where it is long. */
void publish_start(struct client *client, struct wire_message *message)
{
	bool again = message->again;
	struct publish *p = publish_new(client, message);
	int r;

	if (!p)
		return client_refuse(client, message->serial,
			tarn_fail(ENOMEM, "out of memory"));
	r = again ? 0 : may_start(p);
	if (r == 0)
		r = publish_parse(p);
	if (r == 0 && again && publish_was_done(p))
		return publish_end(p);
	if (r == 0 && again)
		r = publish_check_doubt(p);
	if (r == 0 && again)
		r = may_start(p);
	if (r == 0)
		r = join(p);
	/* Once more at the end; but here no memory is sealed for it yet. */
	if (r == 0)
		r = publish_check_names(p);
	if (r < 0)
		return refuse(p, r);
	go_on(p);
}

void publish_orphan(struct client *client)
{
	struct publish *p, *next;

	for (p = client->rule->publishes; p; p = next) {
		next = p->next;
		if (p->client == client)
			publish_end(p);
	}
}
