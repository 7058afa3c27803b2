/* SPDX-License-Identifier: MIT */
/*
 * What a client asks to load, checked once, in private memory; and the
 * descriptors that are made from it when the bytes are there.
 */
#include "daemon/server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"

#define PAGE 4096ull

/* A name of the message, unpacked. */
struct published {
	const char *name;
	uint32_t name_size;
	uint64_t base;
	struct tarn_layout layout;
};

/* ---- descriptors and ranges ------------------------------------------ */

static int check_fd(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return tarn_fail(EBADF, "load: a bad descriptor");
	if (flags & O_PATH)
		return tarn_fail(EBADF, "load: an O_PATH descriptor proves no "
					"right to read");
	if ((flags & O_ACCMODE) == O_WRONLY)
		return tarn_fail(EBADF, "load: a descriptor that is open for "
					"writing only");
	return 0;
}

/* Whole pages around a range may be written by a direct read; two ranges may
 * share none. */
static int check_range(const struct msg_range *ranges, uint32_t i,
	uint64_t delta, uint64_t *ret_end)
{
	const struct msg_range *r = &ranges[i];
	uint64_t end, file_end;

	if (add_u64(r->storage_offset, r->size, &end) ||
		add_u64(r->file_offset, r->size, &file_end) ||
		end > INT64_MAX / 8 || file_end > INT64_MAX)
		return tarn_fail(EOVERFLOW,
			"load: range %u: %llu bytes at "
			"%llu do not fit",
			i, (unsigned long long)r->size,
			(unsigned long long)r->file_offset);
	if (r->size == 0)
		return tarn_fail(EINVAL, "load: range %u is empty", i);
	for (uint32_t k = 0; k < i; k++) {
		uint64_t a0 = ranges[k].storage_offset + delta;
		uint64_t a1 = a0 + ranges[k].size,
			 b0 = r->storage_offset + delta;

		if (round_down_u64(a0, PAGE) < b0 + r->size + PAGE - 1 &&
			round_down_u64(b0, PAGE) < a1 + PAGE - 1)
			return tarn_fail(EINVAL,
				"load: ranges %u and %u "
				"overlap or share a page",
				k, i);
	}
	*ret_end = end;
	return 0;
}

static int parse_ranges(struct load *load)
{
	uint64_t delta, end = 0;
	int r;

	if (load->n_ranges == 0)
		return 0;
	delta = load->ranges[0].file_offset % PAGE;
	if (load->ranges[0].storage_offset != 0)
		return tarn_fail(EINVAL,
			"load: the first range lands at %llu "
			"of the storage, not at 0",
			(unsigned long long)load->ranges[0].storage_offset);
	for (uint32_t i = 0; i < load->n_ranges; i++) {
		r = check_range(load->ranges, i, delta, &end);
		if (r < 0)
			return r;
		load->size = MAX(load->size, end);
	}
	return 0;
}

/* ---- names ------------------------------------------------------------ */

static int check_reach(const struct published *p, uint64_t size)
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
			"load: the tensor %.*s reaches past "
			"the %llu bytes that are loaded",
			(int)p->name_size, p->name, (unsigned long long)size);
	return 0;
}

/* Reads the name at *at, which moves on. */
static int next_name(const unsigned char **at, const unsigned char *end,
	struct published *ret)
{
	const struct msg_name *head = (const void *)*at;
	uint64_t left = (uint64_t)(end - *at), need = sizeof(*head);
	const int64_t *sizes;

	if (left < need)
		return tarn_fail(EPROTO, "load: the message ends in a name");
	if (head->ndim > TARN_MAX_NDIM)
		return tarn_fail(EINVAL, "load: %u dimensions, at most %u fit",
			head->ndim, TARN_MAX_NDIM);
	need += 16ull * head->ndim;
	need += (head->name_size + 7ull) & ~7ull;
	if (left < need)
		return tarn_fail(EPROTO, "load: the message ends in a name");
	sizes = (const int64_t *)(head + 1);
	*ret = (struct published) {
		.name = (const char *)(sizes + 2 * head->ndim),
		.name_size = head->name_size,
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

static int by_name(const void *a, const void *b)
{
	const struct published *x = a, *y = b;
	int c = memcmp(x->name, y->name, MIN(x->name_size, y->name_size));

	return c ? c
		 : (x->name_size > y->name_size) -
			       (x->name_size < y->name_size);
}

static int check_unique(struct published *all, uint32_t n)
{
	qsort(all, n, sizeof(*all), by_name);
	for (uint32_t i = 1; i < n; i++)
		if (by_name(&all[i - 1], &all[i]) == 0)
			return tarn_fail(EINVAL,
				"load: the name %.*s is "
				"given twice",
				(int)all[i].name_size, all[i].name);
	return 0;
}

static int parse_names(
	struct load *load, const unsigned char **at, const unsigned char *end)
{
	_cleanup_free_ struct published *all =
		calloc(load->n_names + 1, sizeof(*all));
	int r;

	if (!all)
		return tarn_fail(
			ENOMEM, "out of memory for %u names", load->n_names);
	for (uint32_t i = 0; i < load->n_names; i++) {
		r = next_name(at, end, &all[i]);
		if (r == 0)
			r = name_check(all[i].name, all[i].name_size);
		if (r == 0)
			r = tarn_layout_check(&all[i].layout);
		if (r == 0)
			r = check_reach(&all[i], load->size);
		if (r < 0)
			return r;
	}
	return check_unique(all, load->n_names);
}

static int parse_label(
	struct load *load, const unsigned char *at, uint32_t size)
{
	static const char none[] = "a file without a label";

	load->label = calloc(1, MAX(size + 1, sizeof(none)));
	if (!load->label)
		return tarn_fail(ENOMEM, "out of memory");
	if (!size)
		strcpy(load->label, none);
	for (uint32_t i = 0; i < size; i++)
		load->label[i] =
			at[i] < ' ' || at[i] == 127 ? '?' : (char)at[i];
	return 0;
}

int load_parse(struct load *load)
{
	const struct wire_message *m = &load->message;
	const struct msg_load *head = (const struct msg_load *)m->body;
	const unsigned char *at = m->body + sizeof(*head);
	const unsigned char *end = m->body + m->size;
	int r = 0;

	if (head->n_ranges > LOAD_RANGES_MAX ||
		head->n_names > LOAD_NAMES_MAX ||
		head->label_size > TARN_NAME_MAX || head->flags)
		return tarn_fail(EINVAL,
			"load: %u ranges, %u names, label of "
			"%u bytes, flags %u: beyond the limits",
			head->n_ranges, head->n_names, head->label_size,
			head->flags);
	if (m->n_fds > 2)
		return tarn_fail(EINVAL,
			"load: %d descriptors, at most 2 are wanted: the file, "
			"and the same for direct reading",
			m->n_fds);
	if (head->n_ranges * sizeof(struct msg_range) > (size_t)(end - at))
		return tarn_fail(EPROTO, "load: the message ends in a range");
	load->n_ranges = head->n_ranges;
	load->n_names = head->n_names;
	load->ranges = (const struct msg_range *)at;
	at += head->n_ranges * sizeof(struct msg_range);
	load->names = at;
	r = parse_ranges(load);
	if (r == 0)
		r = parse_names(load, &at, end);
	if (r == 0 && (size_t)(end - at) != head->label_size)
		r = tarn_fail(EPROTO, "load: %zu bytes are left over",
			(size_t)(end - at));
	if (r == 0)
		r = parse_label(load, at, head->label_size);
	for (int i = 0; i < 2 && r == 0 && load->n_ranges; i++)
		if (i == 0 || load->fds[i] >= 0)
			r = check_fd(load->fds[i]);
	return r;
}

/* ---- publishing ------------------------------------------------------- */

static void displaced(void *arg, const struct tarn_descriptor *d)
{
	storage_unname(arg, d->storage, d->generation);
}

static void describe(const struct rule *rule, uint32_t index,
	uint64_t generation, const struct published *p,
	struct tarn_descriptor *ret)
{
	const struct table_storage *entry = &rule->table.storages[index];

	*ret = (struct tarn_descriptor) {
		.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = rule->table.instance,
		.pool = entry->pool,
		.storage = index,
		.generation = generation,
		.base = entry->base + p->base,
		.size = entry->size,
		.offset = p->layout.offset,
		.dtype = p->layout.dtype,
		.ndim = p->layout.ndim,
	};
	memcpy(ret->shape, p->layout.shape, sizeof(ret->shape));
	memcpy(ret->stride, p->layout.stride, sizeof(ret->stride));
}

/* All names of the load, at once or not at all. */
int load_publish(struct load *load, uint32_t index, uint64_t generation)
{
	struct rule *rule = load->rule;
	const unsigned char *at = load->names;
	const unsigned char *end = load->message.body + load->message.size;
	int r = 0;

	if (load->n_names == 0)
		return 0;
	r = table_begin(rule->writer);
	for (uint32_t i = 0; i < load->n_names && r == 0; i++) {
		struct tarn_descriptor d;
		struct published p;

		r = next_name(&at, end, &p);
		if (r == 0) {
			describe(rule, index, generation, &p, &d);
			r = table_put(
				rule->writer, p.name, p.name_size, &d, NULL);
		}
	}
	if (r < 0) {
		table_abort(rule->writer);
		return r;
	}
	/* Counted first: what is displaced may be this very storage. */
	storage_name(rule, index, load->n_names);
	table_commit(rule->writer, displaced, rule);
	return 0;
}
