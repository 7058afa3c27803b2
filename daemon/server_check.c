/* SPDX-License-Identifier: MIT */
/*
 * WIRE_CHECK: are the server's own books those that the tables make? What a
 * client sees from outside is looked at too, from in here, where no change is
 * under way.
 *
 * The idea: everything private is made again from the tables and compared.
 * What differs is a fault of ours, and would end as bytes that are never
 * freed, or freed while somebody reads them.
 *
 * It takes a while in a large store, and everybody waits meanwhile, so a check
 * may cost a small part of the server's time only: who asks too soon is told
 * to ask again.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server_channel_impl.h"
#include "lib/store/descriptor.h"
#include "shm/table_check.h"

#define CHECK_SHARE 10u /* a tenth of the time at most; picked */

struct check {
	struct rule *rule;
	struct faults *faults;
	uint32_t n;      /* storages */
	uint32_t *names; /* that lead to each, counted in the table */
	struct name_accounts whose; /* they are, the same */
	int r;
};

static const struct table_storage *entry_of(
	const struct check *check, uint32_t index)
{
	return &check->rule->table.storages[index];
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
		check->r = name_accounts_add(&check->whose,
			quota_name_payer(check->rule, d->storage, publisher),
			1);
}

/* ---- storages --------------------------------------------------------- */

/* Somebody is making it: a load that knows it, or one who publishes. */
static bool is_being_filled(const struct check *check, uint32_t index)
{
	return check->rule->infos[index].filling ||
	       (entry_of(check, index)->flags & STORAGE_CREATED &&
		       check->rule->publishes);
}

static void check_holders(struct check *check, uint32_t i)
{
	const struct storage_info *info = &check->rule->infos[i];
	const struct table_storage *entry = entry_of(check, i);
	enum storage_state state = storage_word_state(word_of(check, i));

	if (info->names != check->names[i])
		fault_add(check->faults,
			"storage %u: %u names lead to it, the server counts %u",
			i, check->names[i], info->names);
	if (info->kind != storage_kind(check->rule, i))
		fault_add(check->faults,
			"storage %u: it is counted as kind %u, and is %u", i,
			info->kind, storage_kind(check->rule, i));
	if (state == STORAGE_LIVE && !info->names && !info->cached)
		fault_add(check->faults,
			"storage %u: it is live, and nothing holds its %llu "
			"bytes",
			i, (unsigned long long)entry->size);
	if (entry->flags & STORAGE_QUARANTINE) {
		if (!loader_writes(check->rule, entry->filler))
			fault_add(check->faults,
				"storage %u: it is in quarantine for loader "
				"%u, which is gone",
				i, entry->filler);
	} else if (state == STORAGE_FILLING && !is_being_filled(check, i)) {
		fault_add(check->faults,
			"storage %u: it is being filled, by nobody", i);
	}
	if (info->filling && info->filling->index != i)
		fault_add(check->faults,
			"storage %u: its load fills storage %u", i,
			info->filling->index);
}

/* What only leases hold is held by some. A bell that was rung, and lies in a
 * socket yet, looks the same: whoever asked looks again. */
static int check_leases(struct check *check)
{
	uint32_t n = (uint32_t)check->rule->counts.kinds[KIND_UNNAMED].n;
	_cleanup_free_ uint32_t *indices = calloc(n + 1ul, sizeof(*indices));
	_cleanup_free_ bool *leased = calloc(n + 1ul, sizeof(*leased));
	uint32_t found = 0, i = storage_first(check->rule, KIND_UNNAMED);

	if (!indices || !leased)
		return tarn_fail(ENOMEM, "check: no memory for %u storages", n);
	for (; i != UINT32_MAX && found < n; i = storage_after(check->rule, i))
		indices[found++] = i;
	reap_find_leased(check->rule, indices, found, leased);
	for (i = 0; i < found; i++)
		if (!leased[i])
			fault_add(check->faults,
				"storage %u: %llu bytes have no name and no "
				"lease, and stay",
				indices[i],
				(unsigned long long)entry_of(check, indices[i])
					->size);
	return 0;
}

/* ---- sums ------------------------------------------------------------- */

static void check_kind(struct check *check, enum storage_kind kind)
{
	const struct storage_sum *sum = &check->rule->counts.kinds[kind];
	uint64_t n = 0, bytes = 0, listed = 0;

	for (uint32_t i = 0; i < check->n; i++)
		if (check->rule->infos[i].kind == kind) {
			n++;
			bytes += entry_of(check, i)->size;
		}
	for (uint32_t i = storage_first(check->rule, kind);
		i != UINT32_MAX && listed <= check->n;
		i = storage_after(check->rule, i))
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

/* No byte is lost: what is taken from the pool is what storages have. */
static void check_memory(struct check *check)
{
	const struct rule *rule = check->rule;
	uint64_t taken = 0, segments = 0;

	for (uint32_t i = 0; i < check->n; i++)
		if (storage_word_state(word_of(check, i)) != STORAGE_FREE)
			taken += entry_of(check, i)->alloc_size;
	for (uint32_t i = 0; i < rule->n_segments; i++)
		if (atomic_load_explicit(&rule->table.segments[i].state,
			    memory_order_relaxed) == SEGMENT_READY)
			segments += rule->table.segments[i].size;
	if (taken != memory_used(rule))
		fault_add(check->faults,
			"pool: storages have %llu bytes, %llu are taken",
			(unsigned long long)taken,
			(unsigned long long)memory_used(rule));
	if (segments != memory_total(rule))
		fault_add(check->faults,
			"pool: segments have %llu bytes, the server counts "
			"%llu",
			(unsigned long long)segments,
			(unsigned long long)memory_total(rule));
	if (rule->table.header->n_segments != rule->n_segments)
		fault_add(check->faults,
			"pool: %u segments in the table, the server has %u",
			rule->table.header->n_segments, rule->n_segments);
}

/* The cache finds each file that it should find. */
static void check_cache(struct check *check)
{
	const struct rule *rule = check->rule;
	uint32_t findable = 0, chained = 0;

	for (uint32_t i = 0; i < check->n; i++)
		findable += rule->infos[i].findable;
	for (uint32_t b = 0; b < rule->cache.n_buckets; b++)
		for (uint32_t i = rule->cache.buckets[b];
			i && i <= check->n && chained <= check->n;
			i = rule->infos[i - 1].same)
			chained++;
	if (findable != rule->cache.n || chained != rule->cache.n)
		fault_add(check->faults,
			"cache: %u files, %u in chains; it counts %u", findable,
			chained, rule->cache.n);
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
			    check->rule, i, storage_word_generation(word)))
			fault_add(check->faults,
				"storage %u: it is a channel, and nobody looks "
				"after it",
				i);
	}
	if (n != check->rule->n_channels)
		fault_add(check->faults,
			"channels: there are %u, the server counts %u", n,
			check->rule->n_channels);
}

/* ---- the whole -------------------------------------------------------- */

static int check_books(struct rule *rule, struct faults *faults)
{
	struct check check = {.rule = rule,
		.faults = faults,
		.n = MIN(rule->n_infos, rule->table.header->n_storages)};
	_cleanup_free_ uint32_t *names = calloc(check.n + 1ul, sizeof(*names));

	if (!names)
		return tarn_fail(
			ENOMEM, "check: no memory for %u storages", check.n);
	check.names = names;
	table_each(rule->writer, count_name, &check);
	if (check.r == 0)
		quota_check_books(rule, &check.whose, faults);
	name_accounts_free(&check.whose);
	if (check.r < 0)
		return check.r;
	for (uint32_t i = 0; i < check.n; i++)
		check_holders(&check, i);
	for (int kind = KIND_FREE + 1; kind < STORAGE_KINDS; kind++)
		check_kind(&check, (enum storage_kind)kind);
	check_memory(&check);
	check_cache(&check);
	check_channels(&check);
	return check_leases(&check);
}

int check_rule(
	struct rule *rule, struct faults *faults, struct msg_checked *sum)
{
	struct table_tally tally;
	int r;

	/* First what was let go of, which is between two states. */
	reap(rule);
	r = table_check(&rule->table, descriptor_agrees, 1, faults, &tally);
	if (r >= 0)
		r = check_books(rule, faults);
	if (r < 0)
		return r;
	sum->names += tally.names;
	sum->storages += tally.storages;
	sum->bytes += tally.bytes;
	return 0;
}

/* Its own pool; root and the daemon's user ask for all. */
static int check_all(
	struct client *client, struct faults *faults, struct msg_checked *sum)
{
	struct rule *rule = client->rule->server->rules;
	int r = 0;

	if (client->uid != 0 && client->uid != geteuid())
		return check_rule(client->rule, faults, sum);
	for (; rule && r >= 0; rule = rule->next)
		r = check_rule(rule, faults, sum);
	return r;
}

static int send_checked(struct client *client, uint32_t serial,
	struct msg_checked *sum, const struct faults *faults)
{
	size_t size = sizeof(*sum);
	_cleanup_free_ char *body = NULL;
	char *at;

	for (uint32_t i = 0; i < faults->n; i++)
		size += strlen(faults->lines[i]) + 1;
	body = malloc(size);
	if (!body)
		return tarn_fail(ENOMEM, "check: out of memory");
	sum->n_faults = faults->n;
	sum->n_more = (uint32_t)MIN(faults->n_more, UINT32_MAX);
	at = mempcpy(body, sum, sizeof(*sum));
	for (uint32_t i = 0; i < faults->n; i++)
		at = stpcpy(at, faults->lines[i]), *at++ = '\n';
	client_reply(client, WIRE_CHECKED, serial, body, size, NULL, 0);
	return 0;
}

int check_send(struct client *client, uint32_t serial)
{
	struct rule *home = client->home;
	struct msg_checked sum = {0};
	struct faults faults = {0};
	uint64_t began = loop_now(), ended;
	int r;

	if (began < home->next_check)
		return tarn_fail(EBUSY,
			"a check has just been made, and everybody waited for "
			"it; ask again in %llu ms",
			(unsigned long long)(home->next_check - began) /
					1000000 +
				1);
	r = check_all(client, &faults, &sum);
	ended = loop_now();
	home->next_check = ended + CHECK_SHARE * (ended - began);
	if (r >= 0)
		r = send_checked(client, serial, &sum, &faults);
	faults_clear(&faults);
	return r;
}
