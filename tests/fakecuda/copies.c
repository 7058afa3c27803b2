/* SPDX-License-Identifier: MIT */
/*
 * Copies: rows of bytes, in slices. Each row is looked up when the copy is
 * queued, as the driver does, and again when it is carried out: memory that was
 * freed or unregistered meanwhile is a fault. What comes from pageable memory is
 * staged before the call returns, and what goes there is there when it returns,
 * as documented for the driver.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/standin.h"

struct side {
	uint64_t at;
	size_t pitch, slice;
	enum place place;
	bool on_device; /* it must not be another address of the host */
};

struct copy {
	struct item item;
	struct side dst, src;
	size_t width, height, depth;
	bool staged, fills;
	unsigned char value;
};

/* ---- rows ---------------------------------------------------------------- */

static uint64_t row_of(const struct side *side, size_t y, size_t z)
{
	return side->at + z * side->slice + y * side->pitch;
}

/* The place of all rows; PLACE_NONE: they do not share one. */
static enum place place_of_side(
	const struct copy *c, const struct side *side, int device)
{
	bool writes = side == &c->dst;
	enum place place = PLACE_NONE, one;
	char *host;

	for (size_t z = 0; z < c->depth; z++)
		for (size_t y = 0; y < c->height; y++) {
			one = place_of(row_of(side, y, z), c->width, device,
				writes, true, &host);
			if ((y || z) && one != place)
				return PLACE_NONE;
			place = one;
		}
	return place;
}

static char *host_row(
	const struct copy *c, const struct side *side, size_t y, size_t z)
{
	uint64_t at = row_of(side, y, z);
	char *host;
	enum place place;

	if (side == &c->src && c->staged)
		return (char *)at;
	place = place_of(
		at, c->width, c->item.device, side == &c->dst, true, &host);
	if (place == side->place)
		return host;
	account_fault("a copy %s %zu bytes at %#llx after they were freed or "
		      "unregistered",
		side == &c->dst ? "writes" : "reads", c->width,
		(unsigned long long)at);
	return NULL;
}

static void run(struct item *item)
{
	struct copy *c = (struct copy *)item;
	char *dst, *src = NULL;

	for (size_t z = 0; z < c->depth; z++)
		for (size_t y = 0; y < c->height; y++) {
			dst = host_row(c, &c->dst, y, z);
			if (dst && !c->fills)
				src = host_row(c, &c->src, y, z);
			if (!dst || !(src || c->fills))
				return;
			if (c->fills)
				memset(dst, c->value, c->width);
			else
				memmove(dst, src, c->width);
		}
}

/* ---- queueing ------------------------------------------------------------ */

static CUresult stage(struct copy *c)
{
	char *buffer = malloc(c->width * c->height * c->depth), *to = buffer;

	if (!buffer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t z = 0; z < c->depth; z++)
		for (size_t y = 0; y < c->height; y++, to += c->width)
			memcpy(to, (char *)row_of(&c->src, y, z), c->width);
	c->item.owned = buffer;
	c->src.at = (uintptr_t)buffer;
	c->src.pitch = c->width;
	c->src.slice = c->width * c->height;
	c->staged = true;
	return CUDA_SUCCESS;
}

static bool is_fit(const struct side *side)
{
	return side->place != PLACE_NONE &&
	       !(side->on_device && side->place == PLACE_PAGEABLE);
}

static _Atomic uint64_t sent[DEVICES];

uint64_t fakecuda_sent(int device)
{
	return sent[device];
}

/* To a device's own memory, not from there. */
static void count(const struct copy *c, int device)
{
	if (c->dst.at >= FAKECUDA_VIRTUAL && !c->fills &&
		c->src.at < FAKECUDA_VIRTUAL)
		sent[device] += c->width * c->height * c->depth;
}

static CUresult queue(const struct copy *wanted, struct stream *stream)
{
	struct copy *c;
	CUresult e = CUDA_SUCCESS;
	bool waits;

	if (!wanted->width || !wanted->height || !wanted->depth)
		return CUDA_SUCCESS;
	c = malloc(sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = *wanted;
	c->item.run = run;
	c->dst.place = place_of_side(c, &c->dst, stream->device);
	if (!c->fills)
		c->src.place = place_of_side(c, &c->src, stream->device);
	if (!is_fit(&c->dst) || (!c->fills && !is_fit(&c->src)))
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e && !c->fills && c->src.place == PLACE_PAGEABLE)
		e = stage(c);
	if (e) {
		free(c);
		return e;
	}
	waits = c->dst.place == PLACE_PAGEABLE;
	count(c, stream->device);
	stream_queue(stream, &c->item);
	if (waits)
		stream_drain(stream);
	return waits ? broken(stream->device) : CUDA_SUCCESS;
}

static CUresult copy(const char *name, const struct copy *c, CUstream handle)
{
	struct stream *stream;
	CUresult e = stream_use(handle, &stream);

	if (!e)
		e = refused(name, stream->device);
	return e ? e : queue(c, stream);
}

CUresult cuMemcpyAsync(
	CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
	struct copy c = {.dst.at = dst,
		.src.at = src,
		.width = size,
		.height = 1,
		.depth = 1};
	CUresult e = begin();

	return end(e ? e : copy("COPY", &c, stream));
}

static bool is_of(uint64_t at, CUcontext context)
{
	const struct mapping *m = at >= FAKECUDA_VIRTUAL
					  ? mapping_of(at - FAKECUDA_VIRTUAL)
					  : NULL;

	return m && m->device == device_of(context);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context,
	CUdeviceptr src, CUcontext src_context, size_t size, CUstream stream)
{
	struct copy c = {.dst.at = dst,
		.src.at = src,
		.width = size,
		.height = 1,
		.depth = 1};
	CUresult e = begin();

	if (!e && size &&
		(!is_of(dst, dst_context) || !is_of(src, src_context)))
		e = CUDA_ERROR_INVALID_VALUE;
	return end(e ? e : copy("COPY_PEER", &c, stream));
}

CUresult cuMemsetD8Async(
	CUdeviceptr dst, unsigned char value, size_t size, CUstream stream)
{
	struct copy c = {.dst = {.at = dst, .on_device = true},
		.width = size,
		.height = 1,
		.depth = 1,
		.fills = true,
		.value = value};
	CUresult e = begin();

	return end(e ? e : copy("FILL", &c, stream));
}

/* ---- in two and three dimensions ----------------------------------------- */

/* Of one side of a copy of the driver's, which says each with its own names. */
struct given {
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	size_t x, y, z, pitch, height;
};

static CUresult take(
	const struct given *g, const struct copy *c, struct side *ret)
{
	const long most = setting("PITCH", current_device(), 0x7fffffff);

	if (g->type == CU_MEMORYTYPE_ARRAY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (g->pitch > (size_t)most || g->pitch < g->x + c->width ||
		(c->depth > 1 && g->height < g->y + c->height))
		return CUDA_ERROR_INVALID_VALUE;
	ret->at =
		g->type == CU_MEMORYTYPE_HOST ? (uintptr_t)g->host : g->device;
	ret->pitch = g->pitch;
	ret->slice = g->pitch * g->height;
	ret->at += g->x + g->y * g->pitch + g->z * ret->slice;
	ret->on_device = g->type == CU_MEMORYTYPE_DEVICE;
	return CUDA_SUCCESS;
}

static CUresult copy_box(const char *name, struct copy *c,
	const struct given *dst, const struct given *src, CUstream stream)
{
	CUresult e = take(dst, c, &c->dst);

	if (!e)
		e = take(src, c, &c->src);
	return e ? e : copy(name, c, stream);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *p, CUstream stream)
{
	struct copy c = {
		.width = p->WidthInBytes, .height = p->Height, .depth = 1};
	const struct given dst = {.type = p->dstMemoryType,
		.host = p->dstHost,
		.device = p->dstDevice,
		.x = p->dstXInBytes,
		.y = p->dstY,
		.pitch = p->dstPitch};
	const struct given src = {.type = p->srcMemoryType,
		.host = p->srcHost,
		.device = p->srcDevice,
		.x = p->srcXInBytes,
		.y = p->srcY,
		.pitch = p->srcPitch};
	CUresult e = begin();

	return end(e ? e : copy_box("COPY_2D", &c, &dst, &src, stream));
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *p, CUstream stream)
{
	struct copy c = {.width = p->WidthInBytes,
		.height = p->Height,
		.depth = p->Depth};
	const struct given dst = {.type = p->dstMemoryType,
		.host = p->dstHost,
		.device = p->dstDevice,
		.x = p->dstXInBytes,
		.y = p->dstY,
		.z = p->dstZ,
		.pitch = p->dstPitch,
		.height = p->dstHeight};
	const struct given src = {.type = p->srcMemoryType,
		.host = p->srcHost,
		.device = p->srcDevice,
		.x = p->srcXInBytes,
		.y = p->srcY,
		.z = p->srcZ,
		.pitch = p->srcPitch,
		.height = p->srcHeight};
	CUresult e = begin();

	if (!e && (p->srcLOD || p->dstLOD || p->reserved0 || p->reserved1))
		e = CUDA_ERROR_INVALID_VALUE;
	return end(e ? e : copy_box("COPY_3D", &c, &dst, &src, stream));
}

/* ---- for tests: at once, in memory of the host's ------------------------- */

CUresult cuMemAlloc(CUdeviceptr *ret, size_t size)
{
	CUresult e = begin();

	*ret = (uintptr_t)malloc(size);
	return end(e ? e : *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemFree(CUdeviceptr at)
{
	CUresult e = begin();

	free((void *)at);
	return end(e);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	int device = current_device();
	char *to, *from;
	CUresult e = begin();

	if (!e && device < 0)
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (!e && (!place_of(dst, size, device, true, true, &to) ||
			  !place_of(src, size, device, false, true, &from)))
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e)
		memcpy(to, from, size);
	return end(e);
}
