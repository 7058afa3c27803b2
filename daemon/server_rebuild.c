/* SPDX-License-Identifier: MIT */
/*
 * A server's own books, made from the tables that another one left.
 *
 * The idea: nothing private to a server is needed for correctness. What it
 * does changes the tables, which the keeper holds, and messages in sockets,
 * which survive their sender; so whatever instruction it died at, these two
 * say all there is to know. One pass over the names, when a table is taken
 * over, and one over the storages, when everything was told, make the rest:
 * counts, lists, free extents, the cache. Between the two no word of a storage
 * that has a name changes: nobody is served yet, and what a loader's end frees
 * has none.
 *
 * Why each step may be the last one:
 *
 * - A commit. Versions are written under a number that no reader uses, then
 *   the number is stored. Before that store nothing has happened, and
 *   table_writer_take_over drops what was pending; after it everything has.
 *   Names are counted anew, so it does not matter how far the counting of
 *   what was displaced had come. Who sleeps on header.changed is woken, since
 *   the death may have been between the store and the waking.
 * - Taking memory. An extent is taken in private, then an entry of the table
 *   says so: before that it was free and nobody wrote there. The entry's last
 *   field to be written is its word, and before it the entry is free; one that
 *   is not counted in yet is used again under the same generation, which
 *   nobody was told.
 * - Filling. The number of the loader is in the entry before that loader is
 *   told to write. A loader whose pipe has not ended may still write, so what
 *   it fills stays taken, as STORAGE_QUARANTINE under a generation that nobody
 *   was told; all else that is FILLING is free. Its client loads again.
 * - Loaded. The entry becomes LIVE, then names are committed to it. Between
 *   the two it is a loaded file without a name: kept, and found when its
 *   client loads again. What no file identifies is freed instead.
 * - Freeing. Extent, then word: in private first, so that the word is FREEING
 *   until the extent does not matter any more. What is UNNAMED or FREEING is
 *   looked for in all leases once more, also since a bell may have been rung
 *   that the dead one had read.
 * - Evicting is freeing of what is LIVE without a name: begun again, or not.
 * - Quarantine. The flag is written before the word; an entry that has it and
 *   is still FILLING is judged as one that is FILLING. At its end the extent
 *   is given back in private, then the word is written.
 * - Channels. What the dead held in a ring is given back in steps that can be
 *   done again (shm/ring_words.h), by whoever compares its participants with
 *   the connections that there are. Each server does that when it begins.
 * - Keeping a descriptor. The keeper has it before a table leads to it. What
 *   is kept and stands in no table, or belongs to a client that left, is
 *   forgotten here.
 * - Segments. The keeper has it before the table. One that the table does not
 *   have is added when it is told of again; that is also what happens to one
 *   that was about to be dropped, of which the table says so already.
 * - The end of a client. Its leases count as long as the keeper has it; a
 *   socket that ended meanwhile is found so when it is watched.
 * - An answer. What was done and not answered is asked again, flagged so, and
 *   found done: see server_resume.c.
 */
#include <stdatomic.h>

#include "base/fail.h"
#include "daemon/log.h"
#include "daemon/server.h"

static struct table_storage *entry_of(const struct rule *rule, uint32_t index)
{
	return &rule->table.storages[index];
}

static uint64_t word_of(const struct rule *rule, uint32_t index)
{
	/* Only this thread writes the word. */
	return atomic_load_explicit(
		&entry_of(rule, index)->word, memory_order_relaxed);
}

/* ---- names ------------------------------------------------------------ */

int rebuild_name(void *arg, const struct tarn_descriptor *d, uint32_t publisher)
{
	struct rule *rule = arg;
	uint32_t n = rule->table.header->n_storages;
	int r;

	if (d->storage >= n || storage_word_generation(word_of(
				       rule, d->storage)) != d->generation)
		return 0;
	r = d->storage < rule->n_infos ? 0 : storage_reserve(rule, n - 1);
	if (r == 0)
		r = quota_find_name(rule, d->storage, publisher);
	if (r == 0)
		rule->infos[d->storage].names++;
	return r;
}

/* ---- storages --------------------------------------------------------- */

static bool is_file(const struct table_storage *entry)
{
	return entry->file_ino || entry->file_dev;
}

/* What a loader was, or had been, writing. */
static int rebuild_filled(struct rule *rule, uint32_t index)
{
	struct table_storage *entry = entry_of(rule, index);
	int r;

	if (!entry->alloc_size || !loader_writes(rule, entry->filler)) {
		storage_set(rule, index, STORAGE_FREE);
		return 0;
	}
	r = memory_retake(rule, index);
	if (r == 0)
		storage_quarantine(rule, index);
	return r;
}

/* What nobody may hold any more is looked for after this turn of the loop. */
static void let_go(struct rule *rule, uint32_t index)
{
	rule->infos[index].let_go = true;
	storage_recount(rule, index);
}

static int rebuild_storage(struct rule *rule, uint32_t index)
{
	enum storage_state state = storage_word_state(word_of(rule, index));
	struct table_storage *entry = entry_of(rule, index);
	int r;

	if (state == STORAGE_FREE)
		return 0;
	if (state == STORAGE_FILLING || entry->flags & STORAGE_QUARANTINE)
		return rebuild_filled(rule, index);
	r = memory_retake(rule, index);
	if (r == 0 && entry->flags & STORAGE_CHANNEL)
		r = own_rebuild_channel(rule, index);
	if (r < 0)
		return r;
	if (state == STORAGE_LIVE && is_file(entry))
		cache_keep(rule, index);
	else if (!rule->infos[index].names)
		let_go(rule, index);
	else
		/* A name came back to what was being freed. */
		storage_set(rule, index, STORAGE_LIVE);
	return 0;
}

static int rebuild_rule(struct rule *rule)
{
	uint32_t n = rule->table.header->n_storages;
	int r = segments_rebuild(rule);

	if (r == 0 && n)
		r = storage_reserve(rule, n - 1);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n && r >= 0; i++)
		r = rebuild_storage(rule, i);
	if (r < 0)
		return tarn_fail_prefix(
			r, "control region of rule %u: ", rule->number);
	quota_found_names(rule);
	table_wake(rule->writer);
	return 0;
}

/* ---- what was kept ---------------------------------------------------- */

static bool has_client(const struct server *server, uint64_t number)
{
	for (const struct rule *rule = server->rules; rule; rule = rule->next)
		for (const struct client *c = rule->clients; c; c = c->next)
			if (c->number == number)
				return true;
	return false;
}

static bool still_counts(struct server *server, const struct msg_keep *key)
{
	const struct rule *rule;
	uint64_t word;

	if (key->kind == KEEP_LEASES)
		return has_client(server, key->b);
	if (key->kind == KEEP_PRESSURE)
		return true;
	rule = rule_find(server, key->rule);
	if (!rule || key->a >= rule->table.header->n_storages)
		return false;
	word = word_of(rule, (uint32_t)key->a);
	return storage_word_state(word) != STORAGE_FREE &&
	       storage_word_generation(word) == key->b;
}

static void forget_unless(void *arg, const struct kept *kept)
{
	struct msg_keep key = kept->key;

	if (!still_counts(arg, &key))
		server_forget(arg, &key);
}

int server_rebuild(struct server *server)
{
	uint64_t names = 0, storages = 0;
	int r = 0;

	for (struct rule *rule = server->rules; rule && r >= 0;
		rule = rule->next) {
		r = rebuild_rule(rule);
		names += rule->table.header->n_names;
		storages += storage_count_all(rule);
	}
	if (r < 0)
		return r;
	kept_each(&server->kept, forget_unless, server);
	if (server->start.restarts + server->start.ended)
		log_info("taken_over", log_u64("names", names),
			log_u64("storages", storages),
			log_u64("clients", server->n_clients),
			log_u64("restarts", server->start.restarts),
			log_u64("upgrades", server->start.upgrades));
	return 0;
}
