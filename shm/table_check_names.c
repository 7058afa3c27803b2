/* SPDX-License-Identifier: MIT */
/*
 * Checks of records and chains: the row can be walked, every record that stands
 * is in the chain of its hash exactly once, no other record is in any chain,
 * and each name leads to a storage.
 *
 * The row of records is the reference. One walk over it marks where records
 * begin, one over all chains marks what they reach, and a second one over the
 * row compares.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/record.h"
#include "shm/table_check.h"

/* One bit for each offset at which a record may begin. */
struct places {
	uint64_t *begins;  /* a record or a hole begins there */
	uint64_t *reached; /* a chain leads there */
};

static uint64_t place_of(const struct table *table, uint64_t offset)
{
	return (offset - table->records_offset) / RECORD_ALIGN;
}

static bool test_bit(const uint64_t *bits, uint64_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static void set_bit(uint64_t *bits, uint64_t i)
{
	bits[i / 64] |= 1ull << i % 64;
}

struct names_check {
	const struct table *table;
	table_fits_fn fits;
	struct faults *faults;
	struct places places;
	uint64_t committed;
	uint64_t end; /* end of the row */
	uint64_t n_standing;
	/* The name of the record that is being checked, in printable form. */
	char name[NAME_SIZE_MAX + 1];
};

/* ---- the row ---------------------------------------------------------- */

/* The size of the record there; 0 where the row cannot be walked on. */
static uint32_t row_size(struct names_check *check, uint64_t offset)
{
	const struct name_record *record = record_at(check->table, offset);
	/* Read once; it only ever gets smaller. */
	uint32_t size = record ? PEEK(record->size) : 0;

	if (size >= RECORD_SIZE_MIN && size <= RECORD_SIZE_MAX &&
		size % RECORD_ALIGN == 0 && size <= check->end - offset)
		return size;
	fault_add(check->faults,
		"record at %llu: its size is %u; the records after it cannot "
		"be found",
		(unsigned long long)offset, size);
	return 0;
}

/* The version that stands; -1: none, or it is a removal. */
static int standing(
	const struct names_check *check, const struct name_record *record)
{
	uint64_t commit;
	int i = version_pick(record, check->committed, &commit);

	return i >= 0 && !(record->versions[i].flags & NAME_REMOVED) ? i : -1;
}

static void check_versions(struct names_check *check,
	const struct name_record *record, uint64_t offset)
{
	const struct name_version *v = record->versions;
	uint64_t c0 = atomic_load_explicit(&v[0].commit, memory_order_relaxed);
	uint64_t c1 = atomic_load_explicit(&v[1].commit, memory_order_relaxed);

	if (c0 > check->committed || c1 > check->committed)
		fault_add(check->faults,
			"record at %llu: a version was never committed",
			(unsigned long long)offset);
	if (c0 && c1 && (c0 == c1 || v[c0 < c1].version <= v[c0 > c1].version))
		fault_add(check->faults,
			"record at %llu: commits %llu and %llu, versions %llu "
			"and %llu",
			(unsigned long long)offset, (unsigned long long)c0,
			(unsigned long long)c1,
			(unsigned long long)v[0].version,
			(unsigned long long)v[1].version);
	for (int i = 0; i < 2; i++)
		if (atomic_load_explicit(&v[i].commit, memory_order_relaxed) &&
			(v[i].flags & ~NAME_REMOVED || !v[i].version))
			fault_add(check->faults,
				"record at %llu: flags %#x, version %llu",
				(unsigned long long)offset, v[i].flags,
				(unsigned long long)v[i].version);
}

/* False: the record's name is invalid. */
static bool check_name(struct names_check *check,
	const struct name_record *record, uint64_t offset)
{
	uint32_t n = PEEK(record->name_size);

	if (n <= NAME_SIZE_MAX)
		memcpy(check->name, record->name, n);
	if (n > PEEK(record->size) - sizeof(*record) || n > NAME_SIZE_MAX ||
		name_check(check->name, n) < 0) {
		fault_add(check->faults, "record at %llu: it has no good name",
			(unsigned long long)offset);
		return false;
	}
	check->name[n] = '\0';
	if (name_hash(check->name, n, check->table->hash_seed) !=
		record->hash) {
		fault_add(check->faults,
			"record at %llu: \"%s\" has another hash",
			(unsigned long long)offset, check->name);
		return false;
	}
	return true;
}

/* Checks that the storage of a name exists, and is complete. */
static void check_target(
	struct names_check *check, const struct name_record *record, int i)
{
	const struct tarn_descriptor *d = &record->versions[i].descriptor;
	const struct table *table = check->table;
	struct table_storage entry;
	enum storage_state state;
	int r;

	if (!check->fits)
		return;
	r = table_storage_get(table, d->storage, d->generation, &entry);
	if (r >= 0) {
		state = storage_word_state(atomic_load_explicit(
			&entry.word, memory_order_relaxed));
		r = state == STORAGE_LIVE
			    ? check->fits(table, d, &entry)
			    : tarn_fail(ESTALE,
				      "storage %u is in state %d, and has a "
				      "name",
				      d->storage, (int)state);
	}
	if (r < 0)
		fault_add(check->faults, "\"%s\": %s", check->name,
			tarn_fail_message());
}

static void check_record(struct names_check *check,
	const struct name_record *record, uint64_t offset)
{
	int i;

	if (!PEEK(record->name_size)) {
		if (atomic_load_explicit(&record->versions[0].commit,
			    memory_order_relaxed) ||
			atomic_load_explicit(&record->versions[1].commit,
				memory_order_relaxed))
			fault_add(check->faults,
				"hole at %llu: it has a version",
				(unsigned long long)offset);
		return;
	}
	check_versions(check, record, offset);
	if (!check_name(check, record, offset))
		return;
	i = standing(check, record);
	if (i < 0) {
		fault_add(check->faults,
			"record at %llu: \"%s\" has no version that stands",
			(unsigned long long)offset, check->name);
		return;
	}
	check->n_standing++;
	check_target(check, record, i);
}

static void walk_row(struct names_check *check)
{
	const struct table *table = check->table;
	uint64_t offset = table->records_offset;

	while (offset < check->end) {
		uint32_t size = row_size(check, offset);

		if (!size) {
			/* No record from here on is compared. */
			check->end = offset;
			return;
		}
		set_bit(check->places.begins, place_of(table, offset));
		check_record(check, record_at(table, offset), offset);
		offset += size;
	}
}

/* ---- chains ----------------------------------------------------------- */

/* False: the chain goes no further. */
static bool check_link(
	struct names_check *check, uint32_t bucket, uint32_t n, uint64_t offset)
{
	const struct table *table = check->table;
	const struct name_record *record = record_at(table, offset);
	uint64_t place;

	if (!record || offset >= check->end ||
		!test_bit(check->places.begins,
			place = place_of(table, offset))) {
		fault_add(check->faults,
			"bucket %u: its chain leads to %llu, where no record "
			"begins",
			bucket, (unsigned long long)offset);
		return false;
	}
	if (test_bit(check->places.reached, place)) {
		fault_add(check->faults,
			"bucket %u: the record at %llu is in a chain twice",
			bucket, (unsigned long long)offset);
		return false;
	}
	set_bit(check->places.reached, place);
	if (bucket_of(record->hash, n) != bucket)
		fault_add(check->faults,
			"bucket %u: the record at %llu belongs to bucket %u",
			bucket, (unsigned long long)offset,
			bucket_of(record->hash, n));
	return true;
}

static void walk_chains(struct names_check *check)
{
	const struct table *table = check->table;
	/* Acquire: pairs with the release store in bucket_split. */
	uint32_t n = atomic_load_explicit(
		&table->header->n_buckets, memory_order_acquire);

	if (n < TABLE_BUCKETS_FIRST || n > TABLE_BUCKETS_MAX) {
		fault_add(check->faults, "header: %u buckets", n);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		/* Acquire: pairs with the release store in chain_add. */
		uint64_t offset = atomic_load_explicit(
			&table->buckets[i], memory_order_acquire);

		while (offset && check_link(check, i, n, offset))
			/* Acquire: pairs with that in chain_add, too. */
			offset = atomic_load_explicit(
				&record_at(table, offset)->next,
				memory_order_acquire);
	}
}

/* A record that stands must be in its chain, and no other. */
static void compare(struct names_check *check, uint64_t offset, bool reached)
{
	const struct name_record *record = record_at(check->table, offset);
	bool stands = PEEK(record->name_size) && standing(check, record) >= 0;

	if (stands && !reached)
		fault_add(check->faults,
			"record at %llu: no chain leads to it, so its name is "
			"never found",
			(unsigned long long)offset);
	if (!stands && reached)
		fault_add(check->faults, "hole at %llu: a chain leads to it",
			(unsigned long long)offset);
}

static void compare_all(struct names_check *check)
{
	uint64_t n = place_of(check->table, check->end);

	for (uint64_t i = 0; i < n; i++)
		if (test_bit(check->places.begins, i))
			compare(check,
				check->table->records_offset + i * RECORD_ALIGN,
				test_bit(check->places.reached, i));
}

int check_names(const struct table *table, table_fits_fn fits,
	struct faults *faults, struct table_tally *tally)
{
	const struct table_header *h = table->header;
	/* Acquire: pairs with the release store in record_new. */
	uint64_t used =
		atomic_load_explicit(&h->records_used, memory_order_acquire);
	struct names_check check = {.table = table,
		.fits = fits,
		.faults = faults,
		/* Acquire: pairs with the release store in table_commit. */
		.committed = atomic_load_explicit(
			&h->committed, memory_order_acquire)};
	_cleanup_free_ uint64_t *begins = NULL, *reached = NULL;
	uint64_t words;

	if (used > table->size - table->records_offset || used % RECORD_ALIGN) {
		fault_add(faults, "header: records_used is %llu",
			(unsigned long long)used);
		return 0;
	}
	check.end = table->records_offset + used;
	words = used / RECORD_ALIGN / 64 + 1;
	check.places.begins = begins = calloc(words, sizeof(*begins));
	check.places.reached = reached = calloc(words, sizeof(*reached));
	if (!begins || !reached)
		return tarn_fail(ENOMEM, "check: no memory for %llu records",
			(unsigned long long)(used / RECORD_SIZE_MIN));
	walk_row(&check);
	walk_chains(&check);
	compare_all(&check);
	if (atomic_load_explicit(&h->n_names, memory_order_relaxed) !=
		check.n_standing)
		fault_add(faults, "header: it counts %llu names, %llu stand",
			(unsigned long long)h->n_names,
			(unsigned long long)check.n_standing);
	tally->names = check.n_standing;
	return 0;
}
