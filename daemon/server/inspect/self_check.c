/* SPDX-License-Identifier: MIT */
/*
 * WIRE_CHECK: are the tables sound, and are the server's own books those that
 * the tables make? The server is their only writer, so in here no change is
 * under way, and one look is exact.
 *
 * The check makes all private state again from the tables and compares it. A
 * difference is a fault of the daemon, and would end as bytes that are never
 * freed, or freed while a client reads them.
 *
 * When it is made is in check_queue.c, since all clients wait meanwhile.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server/channel/internal.h"
#include "daemon/server/inspect/audit.h"
#include "lib/descriptor/descriptor.h"
#include "shm/table_check.h"

struct check {
	struct domain *domain;
	struct faults *faults;
	uint32_t n;      /* storages */
	uint32_t *names; /* that lead to each, counted in the table */
	struct name_accounts whose; /* the publishers of names */
	int r;
};

static const struct table_storage *entry_of(
	const struct check *check, uint32_t index)
{
	return &check->domain->table.storages[index];
}

static uint64_t word_of(const struct check *check, uint32_t index)
{
	/* Only this thread writes the word. */
	return atomic_load_explicit(
		&entry_of(check, index)->word, memory_order_relaxed);
}

/* ---- names ------------------------------------------------------------ */

static void count_name(
	void *arg, const struct tarn_descriptor *d, uint32_t publisher)
{
	struct check *check = arg;

	if (d->storage >= check->n)
		return;
	check->names[d->storage]++;
	if (check->r == 0)
		check->r = name_accounts_add(&check->whose, publisher, 1);
}

/* ---- storages --------------------------------------------------------- */

/* Is it being made by a load or a publication that exists? */
static bool is_being_filled(const struct check *check, uint32_t index)
{
	return check->domain->storages.infos[index].filling ||
	       (entry_of(check, index)->flags & STORAGE_CREATED &&
		       check->domain->publishes);
}

static void check_holders(struct check *check, uint32_t i)
{
	const struct storage_info *info = &check->domain->storages.infos[i];
	const struct table_storage *entry = entry_of(check, i);
	enum storage_state state = storage_word_state(word_of(check, i));

	if (info->names != check->names[i])
		fault_add(check->faults,
			"storage %u: %u names lead to it, the server counts %u",
			i, check->names[i], info->names);
	if (info->kind != storage_kind(check->domain, i))
		fault_add(check->faults,
			"storage %u: it is counted as kind %u, and is %u", i,
			info->kind, storage_kind(check->domain, i));
	if (state == STORAGE_LIVE && !info->names && !info->cached &&
		!info->replica && !info->needs)
		fault_add(check->faults,
			"storage %u: it is live, and nothing holds its %llu "
			"bytes",
			i, (unsigned long long)entry->size);
	if (info->replica && !replica_is_of(check->domain, entry))
		fault_add(check->faults,
			"storage %u: it is a replica of storage %u, which is "
			"gone",
			i, entry->of);
	/* What is free still has the flags of what it was. */
	if (entry->flags & STORAGE_QUARANTINE && state != STORAGE_FREE) {
		if (!loader_writes(check->domain, entry->loader_id))
			fault_add(check->faults,
				"storage %u: it is in quarantine for loader "
				"%u, which is gone",
				i, entry->loader_id);
	} else if (state == STORAGE_FILLING && !is_being_filled(check, i)) {
		fault_add(check->faults,
			"storage %u: it is being filled, by nobody", i);
	}
	if (entry->flags & STORAGE_OWN && state != STORAGE_FREE &&
		own_fd(check->domain, i,
			storage_word_generation(word_of(check, i))) < 0)
		fault_add(check->faults,
			"storage %u: its descriptor is not kept", i);
	if (info->filling && info->filling->bytes.index != i)
		fault_add(check->faults,
			"storage %u: its load fills storage %u", i,
			info->filling->bytes.index);
}

/* The storages that only leases hold, and none does, to faults if it is not
 * NULL. How many; -ENOMEM. */
static int find_unleased(struct domain *domain, struct faults *faults)
{
	uint32_t n = (uint32_t)domain->storages.counts.kinds[KIND_UNNAMED].n;
	_cleanup_free_ uint32_t *indices = calloc(n + 1ul, sizeof(*indices));
	_cleanup_free_ bool *leased = calloc(n + 1ul, sizeof(*leased));
	uint32_t found = 0, i = storage_first(domain, KIND_UNNAMED);
	int unleased = 0;

	if (!indices || !leased)
		return tarn_fail(ENOMEM, "check: no memory for %u storages", n);
	for (; i != UINT32_MAX && found < n; i = storage_after(domain, i))
		indices[found++] = i;
	collect_find_leased(domain, indices, found, leased);
	for (i = 0; i < found; i++) {
		unleased += !leased[i];
		if (!leased[i] && faults)
			fault_add(faults,
				"storage %u: %llu bytes have no name and no "
				"lease, and stay",
				indices[i],
				(unsigned long long)domain->table
					.storages[indices[i]]
					.size);
	}
	return unleased;
}

bool self_check_is_settled(struct domain *domain)
{
	/* First those that are being released. */
	collect(domain);
	return find_unleased(domain, NULL) == 0;
}

/* ---- sums ------------------------------------------------------------- */

static void check_kind(struct check *check, enum storage_kind kind)
{
	const struct storage_sum *sum =
		&check->domain->storages.counts.kinds[kind];
	uint64_t n = 0, bytes = 0, listed = 0;

	for (uint32_t i = 0; i < check->n; i++)
		if (check->domain->storages.infos[i].kind == kind) {
			n++;
			bytes += storage_host_bytes(entry_of(check, i));
		}
	for (uint32_t i = storage_first(check->domain, kind);
		i != UINT32_MAX && listed <= check->n;
		i = storage_after(check->domain, i))
		listed++;
	if (n != sum->n || bytes != sum->bytes || listed != n)
		fault_add(check->faults,
			"kind %d: %llu storages of %llu bytes, %llu are "
			"listed; the server counts %llu of %llu",
			(int)kind, (unsigned long long)n,
			(unsigned long long)bytes, (unsigned long long)listed,
			(unsigned long long)sum->n,
			(unsigned long long)sum->bytes);
}

static void check_devices(struct check *check)
{
	const struct domain_counts *counts = &check->domain->storages.counts;
	uint64_t n = 0, bytes = 0;

	for (uint32_t i = 0; i < check->n; i++) {
		const struct table_storage *entry = entry_of(check, i);

		if (check->domain->storages.infos[i].kind == KIND_FREE)
			continue;
		n += !!(entry->flags & STORAGE_DEVICE);
		bytes += storage_device_memory(entry);
	}
	if (n != counts->n_device || bytes != counts->device)
		fault_add(check->faults,
			"%llu storages have %llu bytes of devices, the server "
			"counts %llu of %llu",
			(unsigned long long)n, (unsigned long long)bytes,
			(unsigned long long)counts->n_device,
			(unsigned long long)counts->device);
}

/* No byte is lost: what is taken from the pool is what storages have. */
static void check_memory(struct check *check)
{
	const struct domain *domain = check->domain;
	uint64_t taken = 0, segments = 0;

	for (uint32_t i = 0; i < check->n; i++)
		if (storage_word_state(word_of(check, i)) != STORAGE_FREE)
			taken += entry_of(check, i)->alloc_size;
	for (uint32_t i = 0; i < domain->pool.n_segments; i++)
		if (table_segment_serial(&domain->table, i))
			segments += domain->table.segments[i].size;
	if (taken != memory_used(&domain->pool))
		fault_add(check->faults,
			"pool: storages have %llu bytes, %llu are taken",
			(unsigned long long)taken,
			(unsigned long long)memory_used(&domain->pool));
	if (segments != memory_total(&domain->pool))
		fault_add(check->faults,
			"pool: segments have %llu bytes, the server counts "
			"%llu",
			(unsigned long long)segments,
			(unsigned long long)memory_total(&domain->pool));
	if (domain->table.header->n_segments != domain->pool.n_segments)
		fault_add(check->faults,
			"pool: %u segments in the table, the server has %u",
			domain->table.header->n_segments,
			domain->pool.n_segments);
}

/* The cache finds each file that it should find. */
static void check_cache(struct check *check)
{
	const struct domain *domain = check->domain;
	uint32_t findable = 0, chained = 0;

	for (uint32_t i = 0; i < check->n; i++)
		findable += domain->storages.infos[i].findable;
	for (uint32_t b = 0; b < domain->cache.n_buckets; b++)
		for (uint32_t i = domain->cache.buckets[b];
			i && i <= check->n && chained <= check->n;
			i = domain->storages.infos[i - 1].same)
			chained++;
	if (findable != domain->cache.n || chained != domain->cache.n)
		fault_add(check->faults,
			"cache: %u files, %u in chains; it counts %u", findable,
			chained, domain->cache.n);
}

/* Each channel is known, and nothing else is taken for one. */
static void check_channels(struct check *check)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < check->n; i++) {
		uint64_t word = word_of(check, i);

		if (storage_word_state(word) == STORAGE_FREE ||
			!(entry_of(check, i)->flags & STORAGE_CHANNEL))
			continue;
		n++;
		if (!channel_find(
			    check->domain, i, storage_word_generation(word)))
			fault_add(check->faults,
				"storage %u: it is a channel, and nobody looks "
				"after it",
				i);
	}
	if (n != check->domain->channels.n)
		fault_add(check->faults,
			"channels: there are %u, the server counts %u", n,
			check->domain->channels.n);
}

/* Each belongs to a client that may send its request again. */
static void check_completions(struct check *check)
{
	const struct domain *domain = check->domain;
	uint32_t n = 0, n_clients = 0;

	for (uint32_t i = 0; i < domain->table.header->n_completions; i++)
		n += !!domain->table.completions[i].commit;
	for (const struct client *c = domain->clients; c; c = c->next)
		n_clients += c->completions.n;
	if (n != n_clients)
		fault_add(check->faults,
			"completions: there are %u, clients have %u", n,
			n_clients);
}

/* ---- the whole -------------------------------------------------------- */

static int check_books(struct domain *domain, struct faults *faults)
{
	struct check check = {.domain = domain,
		.faults = faults,
		.n = MIN(domain->storages.n_infos,
			domain->table.header->n_storages)};
	_cleanup_free_ uint32_t *names = calloc(check.n + 1ul, sizeof(*names));

	if (!names)
		return tarn_fail(
			ENOMEM, "check: no memory for %u storages", check.n);
	check.names = names;
	table_each(domain->writer, count_name, &check);
	if (check.r == 0)
		audit_names(domain, &check.whose, faults);
	name_accounts_free(&check.whose);
	if (check.r < 0)
		return check.r;
	for (uint32_t i = 0; i < check.n; i++)
		check_holders(&check, i);
	for (int kind = KIND_FREE + 1; kind < STORAGE_KINDS; kind++)
		check_kind(&check, (enum storage_kind)kind);
	check_devices(&check);
	check_memory(&check);
	check_cache(&check);
	check_channels(&check);
	check_completions(&check);
	audit_user(domain, faults);
	return MIN(find_unleased(domain, faults), 0);
}

int self_check_domain(
	struct domain *domain, struct faults *faults, struct msg_checked *sum)
{
	struct table_tally tally;
	int r;

	/* First the storages that are being released, which are between two
	 * states. */
	collect(domain);
	r = table_check(&domain->table, descriptor_agrees, faults, &tally);
	if (r >= 0)
		r = check_books(domain, faults);
	if (r < 0)
		return r;
	sum->names += tally.names;
	sum->storages += tally.storages;
	sum->bytes += tally.bytes;
	return 0;
}

int self_check(struct server *server, struct domain *only,
	struct faults *faults, struct msg_checked *sum)
{
	int r = 0;

	for (struct domain *domain = server->domains; domain && r >= 0;
		domain = domain->next)
		if (!only || domain == only)
			r = self_check_domain(domain, faults, sum);
	if (!only && r >= 0)
		audit_server(server, faults);
	return r;
}

int self_check_send(struct client *client, uint32_t serial,
	const struct msg_checked *of, const struct faults *faults)
{
	struct msg_checked sum = *of;
	size_t size = sizeof(sum);
	_cleanup_free_ char *body = NULL;
	char *at;
	int r;

	for (uint32_t i = 0; i < faults->n; i++)
		size += strlen(faults->lines[i]) + 1;
	r = quota_check_message(client->user, size);
	if (r < 0)
		return r;
	body = malloc(size);
	if (!body)
		return tarn_fail(ENOMEM, "check: out of memory");
	sum.n_faults = faults->n;
	sum.n_more = (uint32_t)MIN(faults->n_more, UINT32_MAX);
	at = mempcpy(body, &sum, sizeof(sum));
	for (uint32_t i = 0; i < faults->n; i++)
		at = stpcpy(at, faults->lines[i]), *at++ = '\n';
	client_reply(client, WIRE_OUT(WIRE_CHECKED, serial, body, size));
	return 0;
}
