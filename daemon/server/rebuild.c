/* SPDX-License-Identifier: MIT */
/*
 * Makes a server's own books from the tables that another one left.
 *
 * Nothing private to a server is needed for correctness. A server changes the
 * tables, which the keeper holds, and sends messages into sockets, which
 * survive their sender; so at whatever instruction it died, these two contain
 * all that is needed. One pass over the names, when a table is taken over, and
 * one over the storages, when the keeper has sent everything, make the rest:
 * counts, lists, free extents, the cache. Between the two no word of a storage
 * that has a name changes: no client is served yet, and the storages that a
 * loader's end frees have none.
 *
 * Why each step may be the last one:
 *
 * - A commit. Versions are written under a number that no reader uses, then
 *   the number is stored. Before that store nothing has happened, and
 *   table_writer_take_over drops what was pending; after it everything has.
 *   Names are counted again, so it does not matter how far the counting of
 *   displaced names had come. Clients that sleep on header.changed are woken,
 *   since the death may have been between the store and the waking.
 * - Taking memory. An extent is taken in private, then an entry of the table
 *   says so: before that it was free and nobody wrote there. The entry's last
 *   field to be written is its word, and before it the entry is free; one that
 *   is not counted in yet is used again under the same generation, which no
 *   client has seen.
 * - Filling. The number of the loader is in the entry before that loader is
 *   asked to write. A loader whose pipe has not ended may still write, so the
 *   ranges that it fills stay taken, as STORAGE_QUARANTINE under a generation
 *   that no client has seen; all else that is FILLING is free. The client loads
 *   again.
 * - Loaded. The entry becomes LIVE, then names are committed to it. Between
 *   the two it is a loaded file without a name: kept, and found when its
 *   client loads again. What is not to be kept is freed instead, unless a
 *   client has a lease on it.
 * - Freeing. Extent, then word: in private first, so that the word is FREEING
 *   until the extent does not matter any more. The server looks for storages
 *   that are UNNAMED or FREEING in all leases once more, also since the dead
 *   one
 *   may have read a client's message about its last release.
 * - Evicting is freeing of what is LIVE without a name: begun again, or not.
 * - Quarantine. The flag is written before the word; an entry that has it and
 *   is still FILLING is judged as one that is FILLING. At its end the extent
 *   is given back in private, then the word is written.
 * - Replicas. The entry of one says which storage it is of, so the lists are
 *   made again; one that a dead server had not shown yet is shown, unless there
 *   is another on its node. It is released if its storage is live no more.
 * - Patches. The entry of one says what it is over, so what needs a storage is
 *   counted again, before anything is let go. The other one was there before
 *   the patch had an entry, and is let go after the patch is free.
 * - Channels. What the dead held in a ring is given back in steps that can be
 *   done again (shm/ring_internal.h), by any server that compares its
 *   participants with the connections. Each server does that when it begins.
 * - Keeping a descriptor. The keeper has it before a table leads to it. What
 *   is kept and stands in no table, or belongs to a client that left, is
 *   forgotten here.
 * - Segments. The keeper has it before the table. One that the table does not
 *   have is added when it is told of again; that is also what happens to one
 *   that was about to be dropped, of which the table says so already.
 * - The end of a client. Its leases count as long as the keeper has it; a
 *   socket that ended meanwhile is found so when it is watched.
 * - An answer. The client sends the request again, flagged so. If it was done
 *   there is a completion of it, which the commit that did it has shown; the
 *   answer is made from that. See send/completion.c.
 */
#include <stdatomic.h>

#include "base/fail.h"
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

static struct table_storage *entry_of(
	const struct domain *domain, uint32_t index)
{
	return &domain->table.storages[index];
}

static uint64_t word_of(const struct domain *domain, uint32_t index)
{
	/* Only this thread writes the word. */
	return atomic_load_explicit(
		&entry_of(domain, index)->word, memory_order_relaxed);
}

/* ---- names ------------------------------------------------------------ */

int rebuild_name(void *arg, const struct tarn_descriptor *d, uint32_t publisher)
{
	struct domain *domain = arg;
	uint32_t n = domain->table.header->n_storages;
	int r;

	if (d->storage >= n || storage_word_generation(word_of(
				       domain, d->storage)) != d->generation)
		return 0;
	r = d->storage < domain->storages.n_infos
		    ? 0
		    : storage_reserve(domain, n - 1);
	if (r == 0)
		r = quota_find_name(domain, publisher);
	if (r == 0)
		domain->storages.infos[d->storage].names++;
	return r;
}

/* ---- storages --------------------------------------------------------- */

/* Memory that a loader was, or had been, writing. */
static int rebuild_filled(struct domain *domain, uint32_t index)
{
	struct table_storage *entry = entry_of(domain, index);
	int r;

	if (!entry->alloc_size || !loader_writes(domain, entry->loader_id)) {
		storage_set(domain, index, STORAGE_FREE);
		return 0;
	}
	r = memory_retake(domain, index);
	if (r == 0)
		storage_quarantine(domain, index);
	return r;
}

/* Storages that may have no holder are looked for after this turn. */
static void let_go(struct domain *domain, uint32_t index)
{
	/* What a patch is over is let go when that is gone. */
	domain->storages.infos[index].let_go =
		!domain->storages.infos[index].needs;
	storage_recount(domain, index);
}

static int rebuild_channel(struct domain *domain, uint32_t index)
{
	uint64_t generation = storage_word_generation(word_of(domain, index));

	return channel_rebuild(
		domain, index, generation, own_fd(domain, index, generation));
}

static int rebuild_storage(struct domain *domain, uint32_t index)
{
	enum storage_state state = storage_word_state(word_of(domain, index));
	struct table_storage *entry = entry_of(domain, index);
	int r;

	if (state == STORAGE_FREE)
		return 0;
	if (state == STORAGE_FILLING || entry->flags & STORAGE_QUARANTINE)
		return rebuild_filled(domain, index);
	r = memory_retake(domain, index);
	if (r == 0 && entry->flags & STORAGE_CHANNEL)
		r = rebuild_channel(domain, index);
	if (r < 0)
		return r;
	if (state == STORAGE_LIVE && entry->flags & STORAGE_KEPT)
		cache_keep(domain, index);
	else if (state == STORAGE_LIVE && entry->flags & STORAGE_REPLICA)
		return 0; /* below, when all that it may be of are known */
	else if (!domain->storages.infos[index].names)
		let_go(domain, index);
	else
		/* A name came back to what was being freed. */
		storage_set(domain, index, STORAGE_LIVE);
	return 0;
}

static int rebuild_domain(struct domain *domain)
{
	uint32_t n = domain->table.header->n_storages;
	int r = segments_rebuild(domain);

	if (r == 0 && n)
		r = storage_reserve(domain, n - 1);
	if (r == 0)
		r = completions_rebuild(domain);
	if (r < 0)
		return r;
	patches_rebuild(domain);
	for (uint32_t i = 0; i < n && r >= 0; i++)
		r = rebuild_storage(domain, i);
	if (r < 0)
		return tarn_fail_prefix(
			r, "control region of domain %u: ", domain->number);
	replicas_rebuild(domain);
	patches_rebuild_payers(domain);
	quota_found_names(domain);
	table_wake(domain->writer);
	return 0;
}

/* ---- what was kept ---------------------------------------------------- */

static bool has_client(const struct server *server, uint64_t number)
{
	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		for (const struct client *c = domain->clients; c; c = c->next)
			if (c->number == number)
				return true;
	return false;
}

static bool still_counts(struct server *server, const struct msg_fd_key *key)
{
	const struct domain *domain;
	uint64_t word;

	if (key->kind == FD_OF_LEASES)
		return has_client(server, key->b);
	if (key->kind == FD_OF_PRESSURE)
		return true;
	domain = domain_find(server, key->domain);
	if (!domain || key->a >= domain->table.header->n_storages)
		return false;
	word = word_of(domain, (uint32_t)key->a);
	return storage_word_state(word) != STORAGE_FREE &&
	       storage_word_generation(word) == key->b;
}

static void forget_unless(void *arg, const struct stored_fd *stored)
{
	struct msg_fd_key key = stored->key;

	if (!still_counts(arg, &key))
		server_drop_fd(arg, &key);
}

int server_rebuild(struct server *server)
{
	uint64_t names = 0, storages = 0;
	int r = 0;

	for (struct domain *domain = server->domains; domain && r >= 0;
		domain = domain->next) {
		r = rebuild_domain(domain);
		names += domain->table.header->n_names;
		storages += storage_count_all(domain);
	}
	if (r < 0)
		return r;
	fd_store_each(&server->fd_store, forget_unless, server);
	if (server->start.restarts + server->start.ended)
		log_info("taken_over", log_u64("names", names),
			log_u64("storages", storages),
			log_u64("clients", server->n_clients),
			log_u64("restarts", server->start.restarts),
			log_u64("upgrades", server->start.upgrades));
	return 0;
}
