/* SPDX-License-Identifier: MIT */
/*
 * The segments of the store's pool, for a library that registers memory with a
 * network card or another device once, and transfers tensors from it afterwards:
 * NIXL, UCX, libfabric, verbs.
 *
 *	int add(void *domain, const struct tarn_segment *segment);
 *
 *	if (tarn_store_segments(store, add, NULL) < 0)
 *		fprintf(stderr, "%s\n", tarn_error_message());
 *
 * where add registers the bytes of a segment; those of a tensor begin at
 * tarn_tensor_data().
 *
 * What is loaded from files lies in segments, and so do small tensors. Memory that
 * a process created, a MiB or more, or published as a descriptor, is a tensor's
 * own: its bytes are in no segment, and are registered by themselves.
 *
 * Segments are mapped for reading: a registration for remote writes is refused
 * by the kernel, or by the card. What is received is written to memory that
 * tarn_store_create gives, which is registered by itself, and then published.
 *
 * A segment stays where it is for as long as this process holds a tensor in it.
 * The daemon gives memory that it does not need back to the system, and then a
 * segment ends, and a registration holds pages that nobody sees any more; when
 * it needs more, there are new ones. So ask again when a tensor lies in no
 * segment that is registered, and end the registrations of those that are not
 * listed any more.
 */
#pragma once

#include <tarn/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No node, in tarn_segment.node: the daemon did not look the memory up. */
#define TARN_NODE_UNKNOWN (-2)

struct tarn_segment {
	const void *address; /* in this process */
	uint64_t size;
	uint64_t page_size; /* of all its pages */
	/* No two segments of a store ever have the same two. */
	uint32_t number;
	int32_t node; /* of NUMA; TARN_NODE_SEVERAL (tarn/node.h) */
	uint64_t serial;
	uint64_t reserved[4]; /* 0 */
};

/*
 * Calls fn with each segment that the store's pools have now and this process can
 * map, and maps those that it has not mapped yet. fn is called in the calling
 * thread, without a lock; non-zero ends it and is returned. Otherwise 0; or
 * -ECONNRESET, -ETIMEDOUT: there are some to be mapped, and the daemon is gone,
 * or does not answer; -ENOMEM, -EPROTO. The struct is valid during the call. Any
 * thread.
 */
TARN_PUBLIC int tarn_store_segments(tarn_store *store,
	int (*fn)(void *arg, const struct tarn_segment *segment), void *arg)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
