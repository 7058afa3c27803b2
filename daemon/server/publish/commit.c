/* SPDX-License-Identifier: MIT */
/*
 * The names of a publication: all at once, or none.
 *
 * Everything that may fail comes first and can be undone: names are pending
 * under the next commit number, entries are FILLING. Then entries become LIVE,
 * and one store shows the names.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "daemon/loop/log.h"
#include "daemon/server/publish/internal.h"

static uint64_t generation_of(const struct domain *domain, uint32_t index)
{
	/* Only this thread writes the word. */
	return storage_word_generation(atomic_load_explicit(
		&domain->table.storages[index].word, memory_order_relaxed));
}

/* ---- what is there already ------------------------------------------- */

/* Clients that waited for a load that failed may still lease its storage. */
static bool is_whole(const struct table_storage *e)
{
	return e->flags & STORAGE_CREATED ||
	       atomic_load_explicit(&e->landed, memory_order_relaxed) ==
		       e->size;
}

/* A client that publishes a storage again must hold it; it cannot be freed
 * during this event. */
int publish_check_existing(const struct publish *p, uint32_t index,
	uint64_t generation, uint64_t size, bool held)
{
	const struct domain *domain = p->domain;
	const struct table_storage *e;
	enum storage_state state;

	if (index >= domain->storages.n_infos ||
		index >= domain->table.header->n_storages ||
		generation_of(domain, index) != generation || !held)
		return tarn_fail(ESTALE,
			"publish: storage %u of generation %llu is not one "
			"that this connection holds",
			index, (unsigned long long)generation);
	e = &domain->table.storages[index];
	if (e->flags & STORAGE_CHANNEL)
		return tarn_fail(EINVAL,
			"publish: storage %u is a channel's, which has one "
			"name: its own",
			index);
	/* Only this thread writes the word. */
	state = storage_word_state(
		atomic_load_explicit(&e->word, memory_order_relaxed));
	if ((state != STORAGE_LIVE && state != STORAGE_UNNAMED) || !is_whole(e))
		return tarn_fail(ESTALE,
			"publish: the bytes of storage %u are not there",
			index);
	if (e->size != size)
		return tarn_fail(EINVAL,
			"publish: storage %u has %llu bytes, not %llu", index,
			(unsigned long long)e->size, (unsigned long long)size);
	return 0;
}

/* Those that are there already. */
static int check_all_existing(const struct publish *p)
{
	uint32_t indices[PUBLISH_SOURCES_MAX], n = 0;
	uint64_t generations[PUBLISH_SOURCES_MAX];
	const struct source *sources[PUBLISH_SOURCES_MAX];
	bool held[PUBLISH_SOURCES_MAX];
	int r = 0;

	for (uint32_t i = 0; i < p->n_sources; i++) {
		const struct source *s = &p->sources[i];

		if (s->kind != SOURCE_EXISTING)
			continue;
		indices[n] = s->index;
		generations[n] = s->generation;
		sources[n++] = s;
	}
	if (n)
		client_find_held(p->client, indices, generations, n, held);
	for (uint32_t i = 0; i < n && r == 0; i++)
		r = publish_check_existing(p, sources[i]->index,
			sources[i]->generation, sources[i]->size, held[i]);
	return r;
}

/* A channel may take the place of one that is closed and empty, and nothing
 * else any. */
static int check_place(const struct publish *p, const struct named *named,
	const struct tarn_descriptor *d)
{
	bool channel =
		p->n_sources == 1 && p->sources[0].kind == SOURCE_CHANNEL;
	char how[64];

	if (!channel_is(p->domain, d->storage, d->generation))
		return tarn_fail(EEXIST,
			"publish: there is a tensor \"%.*s\" already",
			(int)named->name_size, named->name);
	if (channel && channel_gives_way(p->domain, d->storage, d->generation))
		return 0;
	channel_describe(
		p->domain, d->storage, d->generation, how, sizeof(how));
	return tarn_fail(EEXIST,
		"publish: there is a channel \"%.*s\" already, which is %s; "
		"another name, or 'tarn channel rm', makes room",
		(int)named->name_size, named->name, how);
}

static int check_new(const struct publish *p)
{
	const unsigned char *at = p->names.at;
	struct tarn_descriptor d;
	struct named named;
	uint64_t version;
	int r = 0;

	for (uint32_t i = 0; i < p->names.n && r == 0; i++) {
		r = name_next(&p->names, &at, &named);
		if (r == 0 && table_lookup(&p->domain->table, named.name,
				      named.name_size, &d, &version) == 0)
			r = check_place(p, &named, &d);
	}
	return r;
}

int publish_check_names(const struct publish *p)
{
	return p->flags & PUBLISH_NEW
		       ? check_new(p)
		       : names_check_channels(p->domain, &p->names);
}

/* ---- the transaction ------------------------------------------------- */

static uint64_t ends_at(uint64_t ttl_ns)
{
	uint64_t end;

	if (!ttl_ns)
		return 0;
	/* Centuries: without end. */
	return add_u64(clock_ns(CLOCK_BOOTTIME), ttl_ns, &end) ? 0 : end;
}

static int put_names(struct publish *p, uint64_t *versions)
{
	const unsigned char *at = p->names.at;
	int r = 0;

	table_stamp(p->domain->writer, ends_at(p->ttl_ns), p->uid);
	for (uint32_t i = 0; i < p->names.n && r == 0; i++) {
		struct tarn_descriptor d;
		const struct source *s;
		struct named named;

		r = name_next(&p->names, &at, &named);
		if (r < 0)
			return r;
		s = &p->sources[named.source];
		name_describe(p->domain, s->index, s->generation, &named, &d);
		r = table_put(p->domain->writer, named.name, named.name_size,
			&d, &versions[i]);
	}
	return r;
}

/* The names below the prefix that are not of the new set. */
struct others {
	const struct publish *publish;
	struct named *sorted;
	char *text; /* each with a NUL behind it */
	size_t size, room;
};

static int note_other(void *arg, const char *name, size_t size,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	struct others *o = arg;
	const struct publish *p = o->publish;
	int r = 0;

	if (names_have(o->sorted, p->names.n, name, size))
		return 0;
	/* To remove all below a prefix is no accident. */
	if (p->names.n)
		r = channel_check_taken(
			p->domain, "publish", name, size, descriptor);
	if (r < 0)
		return r;
	if (o->size + size + 1 > o->room) {
		size_t room = MAX(o->room * 2, o->size + size + 4096);
		char *text = realloc(o->text, room);

		if (!text)
			return tarn_fail(ENOMEM, "out of memory");
		o->text = text;
		o->room = room;
	}
	memcpy(o->text + o->size, name, size + 1);
	o->size += size + 1;
	return 0;
}

/* Before anything is put: what is listed is what stands. */
static int find_others(struct others *o)
{
	const struct publish *p = o->publish;
	int r = names_sorted(&p->names, &o->sorted);

	if (r == 0)
		r = table_list(&p->domain->table, p->prefix, p->prefix_size,
			note_other, o);
	return r;
}

static int remove_others(const struct others *o)
{
	struct table_writer *writer = o->publish->domain->writer;
	int r = 0;

	for (size_t at = 0; at < o->size && r == 0;) {
		size_t size = strlen(o->text + at);

		r = table_remove(writer, o->text + at, size);
		at += size + 1;
	}
	return r;
}

/* Nothing here can fail. */
static void show(struct publish *p)
{
	const unsigned char *at = p->names.at;
	struct domain *domain = p->domain;
	struct named named;

	for (uint32_t i = 0; i < p->n_sources; i++) {
		storage_set(domain, p->sources[i].index, STORAGE_LIVE);
		p->sources[i].made = false;
	}
	/* Counted first: what is displaced may be the same storage. */
	for (uint32_t i = 0; i < p->names.n; i++)
		if (name_next(&p->names, &at, &named) == 0) {
			const struct source *s = &p->sources[named.source];

			storage_name(domain, s->index, 1, p->uid);
			if (s->kind == SOURCE_CHANNEL)
				channel_named(domain, s->index, s->generation,
					named.name, named.name_size);
		}
	storage_commit(p->client);
}

static int transact(struct publish *p, uint64_t *versions)
{
	struct others others = {.publish = p};
	int r = 0;

	if (p->flags & PUBLISH_REPLACE)
		r = find_others(&others);
	if (r == 0)
		r = names_check_quota(p->domain, &p->names, p->uid);
	if (r == 0)
		r = table_begin(p->domain->writer);
	if (r == 0) {
		r = put_names(p, versions);
		if (r == 0)
			r = remove_others(&others);
		if (r == 0)
			r = completion_write(p->client, p->serial, NULL);
		if (r < 0)
			table_abort(p->domain->writer);
		else
			show(p);
	}
	free(others.sorted);
	free(others.text);
	return r;
}

static struct msg_stored stored(
	const struct domain *domain, const struct source *source)
{
	const struct table_storage *entry =
		&domain->table.storages[source->index];

	return (struct msg_stored) {
		.index = source->index,
		.pool = entry->pool,
		.generation = source->generation,
		.base = entry->base,
		.size = entry->size,
	};
}

int publish_commit(struct publish *p)
{
	struct publish_answer answer;
	int r = check_all_existing(p);

	if (r == 0)
		r = publish_check_names(p);
	if (r == 0)
		r = publish_answer_new(p, &answer);
	if (r < 0)
		return r;
	r = transact(p, answer.versions);
	for (uint32_t i = 0; i < p->n_sources && r == 0; i++)
		answer.stored[i] = stored(p->domain, &p->sources[i]);
	if (r == 0) {
		answer.head->commit = atomic_load_explicit(
			&p->domain->table.header->committed,
			memory_order_relaxed);
		publish_send_answer(p, &answer);
	}
	free(answer.head);
	return r;
}
