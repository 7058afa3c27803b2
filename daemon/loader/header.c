/* SPDX-License-Identifier: MIT */
/*
 * Is the header that the client parsed the one that the file has?
 *
 * The loader reads the header's bytes, which are the file's first, before the
 * others, between the same two looks at the stamps, and compares a digest: it
 * parses nothing. Stamps tell most changes; a writer within one step of the
 * stamps, or through a mapping, is found by this alone.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "daemon/loader/internal.h"

/* A multiple of the page; most headers are smaller. */
#define CHUNK ((size_t)1 << 20)

struct loader_header {
	struct digest_state *digest;
	uint64_t done;
	size_t size;
	void *chunk;
};

static int next_chunk(struct loader_process *loader, struct loader_job *job)
{
	struct loader_header *h = job->header;
	uint64_t left = job->seen.header_size - h->done;
	const struct tarn_fill_segment segment = {
		.addr = h->chunk, .size = h->size, .buffer = -1};
	const struct tarn_fill_job fill = {
		.direct_fd = -1, /* its client has just read it */
		.buffered_fd = job->buffered_fd,
		.file_offset = h->done,
		.size = MIN(left, (uint64_t)h->size),
		.alloc_size = h->size,
		.segments = &segment,
		.n_segments = 1,
	};

	return tarn_fill_new(loader->io, &fill, &job->fill);
}

int header_begin(struct loader_process *loader, struct loader_job *job)
{
	uint64_t size = MIN(job->seen.header_size, (uint64_t)CHUNK);
	struct loader_header *h = calloc(1, sizeof(*h));

	job->header = h;
	if (h) {
		h->size = (size_t)(size + PAGE - 1) & ~(PAGE - 1);
		h->digest = digest_new();
		h->chunk = aligned_alloc(PAGE, h->size);
	}
	if (!h || !h->digest || !h->chunk)
		return tarn_fail(ENOMEM, "no memory for a file's header");
	return next_chunk(loader, job);
}

static int compare(const struct loader_job *job)
{
	struct digest is = digest_end(job->header->digest);

	if (digest_same(&is, &job->seen.header))
		return 0;
	return tarn_fail(ESTALE,
		"the file changed after its header was read: the %llu bytes of "
		"its header are others now; open it again",
		(unsigned long long)job->seen.header_size);
}

int header_go_on(struct loader_process *loader, struct loader_job *job)
{
	struct loader_header *h = job->header;
	uint64_t n = tarn_fill_landed(job->fill);
	int r = tarn_fill_result(job->fill);

	if (r < 0)
		return r;
	digest_add(h->digest, h->chunk, (size_t)n);
	h->done += n;
	job->fill = tarn_fill_free(job->fill);
	if (h->done < job->seen.header_size) {
		r = next_chunk(loader, job);
		return r < 0 ? r : 1;
	}
	r = compare(job);
	job->header = header_free(h);
	return r;
}

struct loader_header *header_free(struct loader_header *header)
{
	if (!header)
		return NULL;
	digest_free(header->digest);
	free(header->chunk);
	free(header);
	return NULL;
}
