/* SPDX-License-Identifier: MIT */
/*
 * Names that a client wants to publish, from any kind of message.
 *
 * All the arithmetic that a reader would otherwise have to trust is done here,
 * once, on private memory; a name that passes may go into the table.
 */
#include "daemon/server/server.h"

#include <stdlib.h>
#include <string.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"

static int check_reach(
	const struct name_list *names, const struct named *p, uint64_t size)
{
	int64_t first, count, end, bits = tarn_dtype_bits(p->layout.dtype);
	uint64_t byte;

	tarn_layout_bounds(&p->layout, &first, &count);
	if (count == 0 && p->base <= size)
		return 0;
	if (first < 0 || add_i64(first, count, &end) ||
		mul_i64(end, bits, &end) ||
		add_u64(((uint64_t)end + 7) / 8, p->base, &byte) || byte > size)
		return tarn_fail(ERANGE,
			"%s: the tensor %.*s reaches past the %llu bytes that "
			"there are",
			names->verb, (int)p->name_size, p->name,
			(unsigned long long)size);
	return 0;
}

int name_next(const struct name_list *names, const unsigned char **at,
	struct named *ret)
{
	const struct msg_name *head = (const void *)*at;
	uint64_t left = (uint64_t)(names->end - *at), need = sizeof(*head);
	const int64_t *sizes;

	if (left < need)
		return tarn_fail(
			EPROTO, "%s: the message ends in a name", names->verb);
	if (head->ndim > TARN_NDIM_MAX)
		return tarn_fail(EINVAL, "%s: %u dimensions, at most %u fit",
			names->verb, head->ndim, TARN_NDIM_MAX);
	need += 16ull * head->ndim;
	need += (head->name_size + 7ull) & ~7ull;
	if (left < need)
		return tarn_fail(
			EPROTO, "%s: the message ends in a name", names->verb);
	sizes = (const int64_t *)(head + 1);
	*ret = (struct named) {
		.name = (const char *)(sizes + 2 * head->ndim),
		.name_size = head->name_size,
		.source = head->storage,
		.base = head->base,
		.layout = {.dtype = head->dtype,
			.ndim = head->ndim,
			.offset = head->offset},
	};
	memcpy(ret->layout.shape, sizes, 8ul * head->ndim);
	memcpy(ret->layout.stride, sizes + head->ndim, 8ul * head->ndim);
	*at += need;
	return 0;
}

static int compare(const char *a, size_t a_size, const char *b, size_t b_size)
{
	int c = memcmp(a, b, MIN(a_size, b_size));

	return c ? c : (a_size > b_size) - (a_size < b_size);
}

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return compare(x->name, x->name_size, y->name, y->name_size);
}

static int read_all(const struct name_list *names, const unsigned char **at,
	struct named **ret)
{
	struct named *all = calloc(names->n + 1ul, sizeof(*all));
	int r = 0;

	if (!all)
		return tarn_fail(
			ENOMEM, "out of memory for %u names", names->n);
	for (uint32_t i = 0; i < names->n && r == 0; i++)
		r = name_next(names, at, &all[i]);
	if (r < 0)
		free(all);
	else
		*ret = all;
	return r;
}

int names_sorted(const struct name_list *names, struct named **ret)
{
	const unsigned char *at = names->at;
	int r = read_all(names, &at, ret);

	if (r == 0)
		qsort(*ret, names->n, sizeof(**ret), by_name);
	return r;
}

bool names_have(const struct named *sorted, uint32_t n, const char *name,
	size_t name_size)
{
	struct named key = {.name = name, .name_size = (uint32_t)name_size};

	return bsearch(&key, sorted, n, sizeof(key), by_name);
}

static int check_one(const struct name_list *names, const struct named *p,
	const uint64_t *sizes, uint32_t n_sizes)
{
	int r = name_check(p->name, p->name_size);

	if (r == 0)
		r = tarn_layout_check(&p->layout);
	if (r == 0 && p->source >= n_sizes)
		r = tarn_fail(EINVAL, "%s: %.*s is to lie in source %u of %u",
			names->verb, (int)p->name_size, p->name, p->source,
			n_sizes);
	return r < 0 ? r : check_reach(names, p, sizes[p->source]);
}

int names_check(const struct name_list *names, const uint64_t *sizes,
	uint32_t n_sizes, const unsigned char **ret_end)
{
	_cleanup_free_ struct named *all = NULL;
	const unsigned char *at = names->at;
	int r = read_all(names, &at, &all);

	for (uint32_t i = 0; i < names->n && r == 0; i++)
		r = check_one(names, &all[i], sizes, n_sizes);
	if (r < 0)
		return r;
	qsort(all, names->n, sizeof(*all), by_name);
	for (uint32_t i = 1; i < names->n; i++)
		if (by_name(&all[i - 1], &all[i]) == 0)
			return tarn_fail(EINVAL,
				"%s: the name %.*s is given twice", names->verb,
				(int)all[i].name_size, all[i].name);
	*ret_end = at;
	return 0;
}

int names_check_channels(
	const struct domain *domain, const struct name_list *names)
{
	const unsigned char *at = names->at;
	struct tarn_descriptor d;
	struct named named;
	uint64_t version;
	int r = 0;

	if (!domain->channels.n)
		return 0;
	for (uint32_t i = 0; i < names->n && r == 0; i++) {
		r = name_next(names, &at, &named);
		if (r == 0 && table_lookup(&domain->table, named.name,
				      named.name_size, &d, &version) == 0)
			r = channel_check_taken(domain, names->verb, named.name,
				named.name_size, &d);
	}
	return r;
}

static bool is_of(
	const struct domain *domain, const struct named *named, uint32_t uid)
{
	struct table_standing is;

	return table_standing(&domain->table, named->name, named->name_size,
		       &is) >= 0 &&
	       is.uid == uid;
}

/* How many of them are names of that user already. */
static uint64_t count_replaced(const struct domain *domain,
	const struct name_list *names, uint32_t uid)
{
	const unsigned char *at = names->at;
	struct named named;
	uint64_t n = 0;

	for (uint32_t i = 0; i < names->n; i++) {
		if (name_next(names, &at, &named) < 0)
			break;
		n += is_of(domain, &named, uid);
	}
	return n;
}

int names_check_count(struct domain *domain, uint32_t n, uint32_t uid)
{
	const struct domain *user = quota_user(domain, uid);

	if (!user || n <= user->account.quota.limit[QUOTA_NAMES])
		return 0;
	return quota_check(&user->account, QUOTA_NAMES, n);
}

int names_check_quota(
	struct domain *domain, const struct name_list *names, uint32_t uid)
{
	const struct domain *user = quota_user(domain, uid);
	int r = name_accounts_add(&domain->names, uid, 0);

	if (r < 0 || !user ||
		quota_check(&user->account, QUOTA_NAMES, names->n) == 0)
		return r;
	/* Only at the limit is it worth asking which are new. */
	return quota_check(&user->account, QUOTA_NAMES,
		names->n - count_replaced(domain, names, uid));
}

void name_describe(const struct domain *domain, uint32_t index,
	uint64_t generation, const struct named *named,
	struct tarn_descriptor *ret)
{
	const struct table_storage *entry = &domain->table.storages[index];

	*ret = (struct tarn_descriptor) {
		.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = domain->table.instance,
		.pool = entry->pool,
		.storage = index,
		.generation = generation,
		.base = entry->base + named->base,
		.size = entry->size,
		.offset = named->layout.offset,
		.dtype = named->layout.dtype,
		.ndim = named->layout.ndim,
	};
	memcpy(ret->shape, named->layout.shape, sizeof(ret->shape));
	memcpy(ret->stride, named->layout.stride, sizeof(ret->stride));
}
