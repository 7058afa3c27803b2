/* SPDX-License-Identifier: MIT */
/*
 * The life of a publication.
 *
 * First each source gets the memory in which it will stay, under an entry that
 * is FILLING, for which it may have to wait; then, when all are ready,
 * everything becomes visible with one store, without waiting. So no reader ever
 * sees a publication that fails on the way, and the next server drops the
 * entries of a dead one because they are FILLING.
 */
#include "base/page.h"
#include "daemon/server/publish/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"

/* ---- what sources take ----------------------------------------------- */

static struct table_storage pool_entry(
	const struct publish *p, const struct source *s)
{
	return (struct table_storage) {
		.pool = p->domain->number,
		.owner = p->uid,
		.size = s->size,
		.alloc_size = (s->size + PAGE - 1) & ~(PAGE - 1),
		.flags = STORAGE_CREATED,
	};
}

static void add_wanted(
	const struct publish *p, const struct source *s, uint64_t *want)
{
	const struct table_storage entry =
		s->awaited_own ? publish_own_entry(p, s) : pool_entry(p, s);

	storage_add_wanted(&entry, want);
}

void publish_awaited(struct publish *p, struct source *s)
{
	uint64_t want[QUOTA_KINDS] = {0};

	if (!s->awaited)
		return;
	s->awaited = false;
	add_wanted(p, s, want);
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		p->user->account.awaited[kind] -= want[kind];
}

void publish_add_awaited(const struct publish *p, uint64_t *sum)
{
	for (uint32_t i = 0; i < p->n_sources; i++) {
		const struct source *s = &p->sources[i];
		uint64_t want[QUOTA_KINDS] = {0};

		if (!s->awaited)
			continue;
		add_wanted(p, s, want);
		for (int kind = 0; kind < QUOTA_KINDS; kind++)
			sum[kind] += want[kind];
	}
}

/* ---- ends ------------------------------------------------------------ */

static void detach(struct publish *p)
{
	if (p->client && p->joined)
		p->client->n_publishes--;
	p->client = NULL;
	memory_cancel(&p->wait);
}

static void source_free(struct publish *p, struct source *s)
{
	publish_awaited(p, s);
	if (s->made)
		storage_release(p->domain, s->index);
	closer_close(p->closer, s->fd);
	free(s->pieces);
}

/* It counts nowhere any more. */
static void leave(struct publish *p)
{
	struct domain *domain = p->domain;
	struct publish **q;

	for (q = &domain->publishes; *q != p; q = &(*q)->next)
		;
	*q = p->next;
	domain->server->n_publishes--;
	admission_end(&p->admission);
	quota_return(&p->user->account, QUOTA_REQUESTS, p->message.size);
	quota_return(&p->user->account, QUOTA_DESCRIPTORS, p->n_fds);
}

/* A source that the worker has is freed when the worker is done. */
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

/* Ends with this thread's last sentence. */
static void refuse(struct publish *p, int error)
{
	if (quota_may_log(p->user))
		log_warning("publish_failed", log_u64("names", p->names.n),
			log_text("error", tarn_fail_message()));
	if (p->client)
		client_refuse(p->client, p->serial, error);
	publish_end(p);
}

/* ---- bytes ----------------------------------------------------------- */

int publish_take_memory(struct publish *p, struct source *s)
{
	struct domain *domain = p->domain;
	struct table_storage entry = pool_entry(p, s);
	int r = 1;

	if (s->made)
		return 1;
	r = storage_check_quota(domain, &entry, &p->wait);
	if (r != 0)
		return r == MEMORY_LATER ? 0 : r;
	r = entry.alloc_size
		    ? lane_choose(domain, p->flags & PLACE_MASK, &p->wait)
		    : 0;
	if (r < 0)
		return r;
	r = 1;
	if (entry.alloc_size)
		r = memory_want(&p->wait, entry.alloc_size, false);
	if (r != 1)
		return r;
	if (entry.alloc_size)
		entry.base = entry.alloc_offset = p->wait.offset;
	r = storage_new(
		domain, &entry, STORAGE_FILLING, &s->index, &s->generation);
	if (r < 0 && entry.alloc_size)
		alloc_give(lane_alloc_at(&domain->pool, entry.alloc_offset),
			entry.alloc_offset, entry.alloc_size);
	s->made = r == 0;
	publish_awaited(p, s);
	return r < 0 ? r : 1;
}

/* The bytes behind the last one must not be an earlier owner's. */
static void write_bytes(struct publish *p, struct source *s)
{
	const struct table_storage *e = &p->domain->table.storages[s->index];

	pool_write(&p->domain->pool, e->base, s->bytes, s->size);
	pool_write(&p->domain->pool, e->base + s->size, NULL,
		e->alloc_size - s->size);
}

static int from_bytes(struct publish *p, struct source *s)
{
	int r = publish_take_memory(p, s);

	if (r == 1)
		write_bytes(p, s);
	return r;
}

/* 1: its bytes are where they will stay; 0: wait; or an error. */
static int make_ready(struct publish *p, struct source *s)
{
	int r = 1;

	if (s->ready || s->working)
		return s->ready;
	if (s->kind == SOURCE_BYTES)
		r = from_bytes(p, s);
	else if (s->kind == SOURCE_DEVICE)
		r = publish_from_device(p, s);
	else if (s->kind != SOURCE_EXISTING)
		r = publish_from_fd(p, s);
	s->ready = r == 1;
	return r;
}

/* ---- its quota ------------------------------------------------------- */

/* From here on all of it is awaited. Sums may wrap where there is no quota. */
static void await(struct publish *p)
{
	for (uint32_t i = 0; i < p->n_sources; i++)
		p->sources[i].awaited = p->sources[i].kind != SOURCE_EXISTING;
	publish_add_awaited(p, p->user->account.awaited);
}

/* All that it will take, at once, before any of it is taken: what its user may
 * not publish must not cost others their cache. What other publications of that
 * user wait for counts as taken. */
static int check_quota(struct publish *p)
{
	struct domain *user = quota_user(p->domain, p->uid);
	uint64_t want[QUOTA_KINDS] = {0};
	int r = names_check_quota(p->domain, &p->names, p->uid);

	for (uint32_t i = 0; i < p->n_sources; i++) {
		struct source *s = &p->sources[i];

		s->awaited_own = publish_is_own(p, s);
		if (s->kind != SOURCE_EXISTING)
			add_wanted(p, s, want);
	}
	if (r == 0 && user)
		r = storage_fit_awaited(user, want, &p->wait);
	if (r == 0)
		await(p);
	p->fits = r == 0;
	return r;
}

/* ---- going on -------------------------------------------------------- */

static int make_all_ready(struct publish *p)
{
	int all = 1;

	for (uint32_t i = 0; i < p->n_sources; i++) {
		int r = make_ready(p, &p->sources[i]);

		if (r < 0)
			return r;
		all &= r;
		/* One of them waits for memory, be it this one or one behind
		 * it. Those that come after it get theirs after it. */
		if (p->wait.queued)
			return 0;
	}
	return all;
}

/* Frees it when it has come to an end. */
static void go_on(struct publish *p)
{
	int r = p->fits ? 0 : check_quota(p);
	bool ready;

	if (r == MEMORY_LATER)
		return;
	if (r == 0)
		r = make_all_ready(p);
	ready = r == 1;
	if (ready)
		r = publish_commit(p);
	if (r < 0)
		return refuse(p, r);
	if (ready)
		publish_end(p);
}

static void waited(struct memory_wait *wait, int error)
{
	struct publish *p = (struct publish *)((char *)wait -
					       offsetof(struct publish, wait));

	if (error < 0)
		refuse(p, error);
	else
		go_on(p);
}

/* It may commit many names, which takes milliseconds. */
static void work_done(struct work *work)
{
	struct source *s =
		(struct source *)((char *)work - offsetof(struct source, work));
	struct publish *p = s->publish;
	struct domain *user = p->user;
	uint64_t began = loop_now();

	s->working = false;
	s->worked = true;
	p->n_working--;
	if (p->client)
		go_on(p);
	else
		publish_end(p);
	quantum_spend(user, began);
}

int publish_give_work(
	struct publish *p, struct source *s, void (*run)(struct work *work))
{
	int r;

	s->work = (struct work) {.run = run, .done = work_done};
	r = worker_give(p->domain->worker, &s->work);
	s->working = r == 0;
	p->n_working += r == 0;
	return r;
}

/* ---- the client ------------------------------------------------------ */

static int check_start(const struct publish *p)
{
	const struct msg_publish *head =
		(const struct msg_publish *)p->message.body;

	if (p->domain->server->drain.draining)
		return tarn_fail(ESHUTDOWN, "the daemon is ending; start it "
					    "again and publish again");
	return names_check_count(p->domain, head->n_names, p->uid);
}

/* From here on it counts. */
static int join(struct publish *p)
{
	struct publish **q;
	int r = quota_charge_message(p->user, &p->message);

	if (r < 0)
		return r;
	for (q = &p->domain->publishes; *q; q = &(*q)->next)
		;
	*q = p;
	p->domain->server->n_publishes++;
	p->client->n_publishes++;
	p->joined = true;
	return 0;
}

static void begin(struct publish *p)
{
	/* Once more at the end; but here no memory is sealed for it yet. */
	int r = publish_check_names(p);

	if (r < 0)
		refuse(p, r);
	else
		go_on(p);
}

static void admitted(struct admission *admission)
{
	begin((struct publish *)((char *)admission -
				 offsetof(struct publish, admission)));
}

static struct publish *publish_new(
	struct client *client, struct wire_message *message)
{
	struct publish *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->domain = client->domain;
	p->user = client->user;
	p->wait.domain = client->domain;
	p->wait.user = client->user;
	p->wait.done = waited;
	p->n_fds = (uint32_t)message->n_fds;
	p->admission = (struct admission) {.user = client->user,
		.kind = ADMISSION_PUBLISH_FDS,
		.n = p->n_fds,
		.n_fds = p->n_fds,
		.begin = admitted};
	p->client = client;
	p->closer = client->user->closer;
	p->uid = client->uid;
	p->serial = message->serial;
	p->message = *message;
	*message = (struct wire_message) {0};
	return p;
}

/* A request that was done is answered before any limit can refuse it. One that
 * comes for the first time may be refused before it is read, which takes long
 * where it is long. */
void publish_start(struct client *client, struct wire_message *message)
{
	bool again = message->again;
	struct publish *p = publish_new(client, message);
	int r;

	if (!p)
		return client_refuse(client, message->serial,
			tarn_fail(ENOMEM, "out of memory"));
	r = again ? 0 : check_start(p);
	if (r == 0)
		r = publish_parse(p);
	if (r == 0 && again)
		r = publish_answer_again(p);
	if (r == 1)
		return publish_end(p);
	if (r == 0 && again)
		r = check_start(p);
	if (r == 0)
		r = join(p);
	if (r < 0)
		return refuse(p, r);
	if (admission_ask(&p->admission))
		begin(p);
}

void publish_orphan(struct client *client)
{
	struct publish *p, *next;

	for (p = client->domain->publishes; p; p = next) {
		next = p->next;
		if (p->client == client)
			publish_end(p);
	}
}
