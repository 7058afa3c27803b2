// SPDX-License-Identifier: MIT
/*
 * Copies that are not allowed are refused before a byte has moved: shapes that
 * do not match, a dst that may not be written or overlaps itself, a src that
 * shares bytes with dst.
 *
 * Two tensors share bytes in one of two spaces: addresses, or positions in one
 * file. In either, their layouts are moved to one origin and then compared as
 * layouts of one storage, so that even columns may be copied to odd ones of the
 * same matrix, however the two tensors were made.
 */
#include "lib/copy/copy_op.h"

#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/layout/layout.h"
#include "lib/reserved.h"

static int check_shape(
	const tarn_tensor *dst, const tarn_tensor *src, struct tarn_layout *ret)
{
	const struct tarn_layout *to = &dst->layout, *from = &src->layout;

	if (from->ndim == to->ndim && !memcmp(from->shape, to->shape,
					      to->ndim * sizeof(*to->shape))) {
		*ret = *from;
		return 0;
	}
	if (from->ndim <= to->ndim &&
		tarn_layout_expand(from, to->ndim, to->shape, ret) == 0)
		return 0;
	return tarn_fail(EINVAL,
		"copy: a source of shape %s cannot be broadcast to a "
		"destination of shape %s",
		LAYOUT_TEXT(from), LAYOUT_TEXT(to));
}

static int check_rights(const tarn_tensor *dst, const tarn_tensor *src)
{
	const struct storage_file *file = storage_file(src->storage);

	if (!dst->storage->writable)
		return tarn_tensor_check_writable(dst, "copy");
	if (file && !file->readable)
		return tarn_fail(EBADF,
			"copy: src is a file that is open for writing only; "
			"open it for reading too");
	return 0;
}

/* The place of a tensor in some space of bytes, end excluded. */
struct reach {
	uint64_t origin; /* of the byte from which its layout counts */
	uint64_t first, end;
};

static struct reach reach_of(const struct tarn_layout *l, uint64_t origin)
{
	int64_t first, count, bits = tarn_dtype_bits(l->dtype);

	tarn_layout_bounds(l, &first, &count);
	return (struct reach) {
		.origin = origin,
		.first = origin + (uint64_t)(first * bits / 8),
		.end = origin + (uint64_t)(((first + count) * bits + 7) / 8),
	};
}

static bool meet(const struct tarn_layout *to, uint64_t to_origin,
	const struct tarn_layout *from, uint64_t from_origin)
{
	struct reach a = reach_of(to, to_origin);
	struct reach b = reach_of(from, from_origin);
	struct tarn_layout moved = *from;
	int64_t bits = tarn_dtype_bits(from->dtype), apart;

	if (a.first >= b.end || b.first >= a.end)
		return false;
	/* Both ranges exist, so their distance does not overflow. */
	if (mul_i64((int64_t)(from_origin - to_origin), 8, &apart) ||
		apart % bits != 0 ||
		add_i64(moved.offset, apart / bits, &moved.offset))
		return true;
	return tarn_layout_overlaps(to, &moved);
}

static bool same_file(
	const struct storage_file *a, const struct storage_file *b)
{
	struct stat x, y;

	if (a == b)
		return true;
	return fstat(a->fd, &x) == 0 && fstat(b->fd, &y) == 0 &&
	       x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* All devices of a process have their addresses in one space. */
static bool shares_device_bytes(const tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_layout *from)
{
	struct device_bytes to_bytes, from_bytes;

	/* Where a device cannot be used the copy fails later. */
	if (dst->storage->on_device(dst->storage, &to_bytes) < 0 ||
		src->storage->on_device(src->storage, &from_bytes) < 0)
		return false;
	return meet(&dst->layout, to_bytes.at + dst->base, from,
		from_bytes.at + src->base);
}

bool copy_shares_bytes(const tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_layout *from)
{
	const struct storage_file *to_file = storage_file(dst->storage);
	const struct storage_file *from_file = storage_file(src->storage);

	if (dst->storage->on_device && src->storage->on_device)
		return shares_device_bytes(dst, src, from);
	if (dst->storage->data && src->storage->data)
		return meet(&dst->layout, (uintptr_t)tarn_tensor_origin(dst),
			from, (uintptr_t)tarn_tensor_origin(src));
	if (to_file && from_file)
		return meet(&dst->layout, to_file->offset + dst->base, from,
			       from_file->offset + src->base) &&
		       same_file(to_file, from_file);
	return false;
}

int copy_check_itself(const char *verb, const tarn_tensor *dst)
{
	if (tarn_layout_is_contiguous(&dst->layout) ||
		!tarn_layout_overlaps_itself(&dst->layout))
		return 0;
	return tarn_fail(EINVAL,
		"%s: dst meets itself: with shape %s and strides %s two "
		"indices lead to one element",
		verb, LAYOUT_TEXT(&dst->layout), STRIDE_TEXT(&dst->layout));
}

static int check_overlap(const tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_layout *from)
{
	int r = copy_check_itself("copy", dst);

	if (r >= 0 && copy_shares_bytes(dst, src, from))
		r = tarn_fail(EINVAL,
			"copy: dst and src share bytes; copy a clone of src");
	return r;
}

static int check_channels(
	const struct tarn_layout *to, struct tarn_copy_options *o)
{
	int64_t extent;
	int r;

	if ((!o->scale && !o->bias) || o->channels == 1) {
		o->channel_dim = -1;
		return 0;
	}
	r = layout_dim(
		"copy: channel_dim", to, o->channel_dim, &o->channel_dim);
	if (r < 0)
		return r;
	extent = to->shape[o->channel_dim];
	if (o->channels == extent)
		return 0;
	return tarn_fail(EINVAL,
		"copy: scale and bias for %lld channels, but dimension %d of "
		"dst has %lld; give as many, or 1 for all",
		(long long)o->channels, o->channel_dim, (long long)extent);
}

int copy_check_engine(const char *verb, const char *engine)
{
	if (!engine || !strcmp(engine, "io_uring") ||
		!strcmp(engine, "threads"))
		return 0;
	return tarn_fail(EINVAL,
		"%s: there is no engine \"%.40s\"; it must be io_uring or "
		"threads",
		verb, engine);
}

int copy_check_options(
	const struct tarn_layout *to, struct tarn_copy_options *o)
{
	int r = RESERVED_CHECK("tarn_copy_options", o);

	if (r >= 0)
		r = copy_check_engine("copy", o->engine);
	if (r < 0)
		return r;
	if (o->threads < 0)
		return tarn_fail(EINVAL,
			"copy: %d threads; 0 and 1 are the caller's alone",
			o->threads);
	if ((unsigned)o->io_mode > TARN_IO_DIRECT)
		return tarn_fail(EINVAL, "copy: there is no I/O mode %d",
			(int)o->io_mode);
	if ((unsigned)o->rounding > TARN_ROUND_EVEN)
		return tarn_fail(EINVAL, "copy: there is no rounding %d",
			(int)o->rounding);
	return check_channels(to, o);
}

int copy_check(struct copy_op *head, tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options)
{
	static const struct tarn_copy_options plain = {.channel_dim = -1};
	int r;

	head->options = options ? *options : plain;
	r = check_shape(dst, src, &head->from);
	if (r >= 0 && options)
		r = copy_check_options(&dst->layout, &head->options);
	if (r >= 0)
		r = check_rights(dst, src);
	if (r >= 0 && tarn_layout_numel(&dst->layout) != 0)
		r = check_overlap(dst, src, &head->from);
	if (r >= 0)
		r = move_plan(
			&head->move, &dst->layout, &head->from, &head->options);
	if (r < 0)
		return r;
	head->ops = NULL;
	head->env = NULL;
	head->dst = dst;
	head->src = (tarn_tensor *)src; /* counted, not changed */
	memset(&head->info, 0, sizeof(head->info));
	head->info.bytes = (uint64_t)tarn_layout_nbytes(&dst->layout);
	head->done = 0;
	head->in_flight = 0;
	head->outer = NULL;
	head->ended = head->cancelled = false;
	head->error = 0;
	head->error_text[0] = '\0';
	return 0;
}
