/* SPDX-License-Identifier: MIT */
/*
 * Parses a request to load: checked once, in private memory.
 */
#include "base/page.h"
#include "daemon/server/load/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"

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

/* ---- the message ------------------------------------------------------ */

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
		head->label_size > TARN_NAME_MAX ||
		head->flags &
			~(LOAD_FRESH | LOAD_COPY | LOAD_MOVE | PLACE_MASK) ||
		(head->flags & LOAD_MOVE && !(head->flags & LOAD_COPY)) ||
		head->seen.header_size > LOAD_HEADER_MAX)
		return tarn_fail(EINVAL,
			"load: %u ranges, %u names, label of "
			"%u bytes, header of %llu bytes, flags %u: beyond the "
			"limits",
			head->n_ranges, head->n_names, head->label_size,
			(unsigned long long)head->seen.header_size,
			head->flags);
	if (m->n_fds > 2)
		return tarn_fail(EINVAL,
			"load: %d descriptors, at most 2 are wanted: the file, "
			"and the same for direct reading",
			m->n_fds);
	if (head->flags & LOAD_COPY) {
		if (sizeof(struct msg_copied) > (size_t)(end - at))
			return tarn_fail(
				EPROTO, "load: the message ends in a copy");
		at += sizeof(struct msg_copied);
	}
	if (head->n_ranges * sizeof(struct msg_range) > (size_t)(end - at))
		return tarn_fail(EPROTO, "load: the message ends in a range");
	load->seen = head->seen;
	load->seen.identity.pad = 0;
	load->fresh = head->flags & LOAD_FRESH;
	load->place = head->flags & PLACE_MASK;
	load->n_ranges = head->n_ranges;
	load->ranges = (const struct msg_range *)at;
	at += head->n_ranges * sizeof(struct msg_range);
	load->names = (struct name_list) {
		.verb = "load", .at = at, .end = end, .n = head->n_names};
	r = parse_ranges(load);
	if (r == 0)
		r = names_check(&load->names, &load->size, 1, &at);
	if (r == 0 && (size_t)(end - at) != head->label_size)
		r = tarn_fail(EPROTO, "load: %zu bytes are left over",
			(size_t)(end - at));
	if (r == 0)
		r = parse_label(load, at, head->label_size);
	if (r == 0)
		r = load_copy_check(load);
	for (int i = 0; i < 2 && r == 0 && load->n_ranges && !load->copy.is;
		i++)
		if (i == 0 || load->fds[i] >= 0)
			r = check_fd(load->fds[i]);
	return r;
}
