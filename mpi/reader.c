// SPDX-License-Identifier: MIT
#include "mpi/reader.h"

#include <errno.h>

#include "base/checked.h"

/* Of chunks: enough for a disk to be busy, and little beside the rest. Picked. */
#define AHEAD 16

static void fail(struct reader *reader, int r)
{
	said_failed(reader->said, r);
	reader->failed = true;
}

void reader_begin(struct reader *reader, const struct source *source,
	tarn_tensor *memory, uint64_t begin, uint64_t end, struct said *said)
{
	int r = 0;

	*reader = (struct reader) {.source = source,
		.memory = memory,
		.begin = begin,
		.end = end,
		.n = (int)((end - begin + CHUNK - 1) / CHUNK),
		.said = said};
	reader->left = calloc((size_t)reader->n + 1, sizeof(*reader->left));
	if (!reader->left)
		r = tarn_error_set(ENOMEM, "out of memory");
	if (r >= 0 && reader->n)
		r = tarn_stream_new(NULL, &reader->stream);
	if (r < 0)
		fail(reader, r);
}

static void begin_more(struct reader *reader)
{
	while (!reader->failed && reader->begun < reader->n &&
		reader->under_way < AHEAD) {
		uint64_t at = reader->begin + (uint64_t)reader->begun * CHUNK;
		int r = source_read(reader->source, reader->stream,
			reader->memory, at, MIN(at + CHUNK, reader->end),
			(uint64_t)reader->begun, &reader->left[reader->begun],
			&reader->bytes);

		reader->under_way += reader->left[reader->begun];
		reader->begun++;
		if (r < 0)
			fail(reader, r);
	}
}

void reader_work(struct reader *reader, int wait_ms)
{
	struct tarn_completion done[AHEAD];
	int n;

	begin_more(reader);
	if (!reader->under_way)
		return;
	n = tarn_stream_reap(
		reader->stream, wait_ms ? 1 : 0, wait_ms, done, AHEAD);
	if (n < 0) {
		/* The engine is lost, and tells of no copy any more. */
		reader->under_way = 0;
		fail(reader, n);
	}
	for (int i = 0; i < n; i++) {
		reader->left[done[i].user]--;
		reader->under_way--;
		if (done[i].result < 0)
			fail(reader, tarn_error_set(-done[i].result, "%s",
					     done[i].message));
	}
	begin_more(reader);
}

bool reader_has(const struct reader *reader, int chunk)
{
	return reader->failed ||
	       (chunk < reader->begun && !reader->left[chunk]);
}

void reader_end(struct reader *reader, bool stuck)
{
	if (stuck)
		return;
	if (reader->stream)
		tarn_stream_free(reader->stream);
	free(reader->left);
}
