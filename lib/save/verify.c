/* SPDX-License-Identifier: MIT */
/*
 * Verifying: the bytes of all tensors that have a checksum are read in the
 * order of the file, many chunks at once, and summed in that order as they
 * arrive. It needs memory for the chunks only, whatever the size of the file.
 */
#include "lib/save/verify.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/copy/times.h"
#include "lib/file/file.h"
#include "lib/reserved.h"
#include "lib/save/chunk_io.h"

/* A chunk of the file being read. Its memory begins as far into a page as the
 * chunk does in the file, so that it can be read directly. */
struct slot {
	uint64_t offset, size;
	tarn_storage *storage;
	bool reading;
};

struct verifier {
	tarn_file *file;
	const struct tarn_verify_options *options;
	struct tarn_verify_info *info;
	struct claim *claims;
	struct checksum_range *ranges; /* of those that have a checksum */
	size_t n_ranges, next;         /* the number of ranges, and the next one
				        * to read */
	struct checksums sums;
	tarn_stream *stream;
	struct slot slots[SLOTS];
	uint64_t begun, summed; /* chunks */
	uint64_t at, done, before, total;
	/* Tensors that were reported, and those of them with a checksum. */
	size_t reported, reported_ranges;
	struct chunk_failure failure;
	const struct claim *first; /* the first that differs */
	uint64_t seen;             /* its checksum */
};

/* ---- what is known --------------------------------------------------- */

static int report_one(struct verifier *v, const struct claim *c)
{
	const struct tarn_verify_options *o = v->options;
	int result = c->result;
	uint64_t seen = 0;

	if (result == 0) {
		seen = v->ranges[v->reported_ranges++].value;
		result = seen == c->wanted ? 0 : -EBADMSG;
	}
	v->info->good += result == 0;
	v->info->bad += result == -EBADMSG;
	v->info->unchecked += result == -ENODATA;
	if (result == -EBADMSG && !v->first) {
		v->first = c;
		v->seen = seen;
	}
	return o->tensor ? o->tensor(o->arg, c->tensor, result) : 0;
}

/* Reports all tensors whose result is known by now. */
static int report_known(struct verifier *v)
{
	int r = 0;

	while (!r && v->reported < tarn_file_count(v->file)) {
		const struct claim *c = &v->claims[v->reported];

		if (c->result == 0 && v->reported_ranges == v->sums.done)
			break;
		v->reported++;
		r = report_one(v, c);
	}
	return r;
}

static int reap(struct verifier *v, size_t at_least)
{
	const struct tarn_verify_options *o = v->options;
	struct tarn_completion done[REAPED_AT_ONCE];
	int n = tarn_stream_reap(v->stream, at_least,
		o->progress ? PROGRESS_MS : -1, done, REAPED_AT_ONCE);

	for (int i = 0; i < n; i++) {
		v->slots[done[i].user].reading = false;
		v->info->read.bytes += done[i].info.bytes;
		chunk_count(&v->info->read, &v->failure, &done[i]);
	}
	if (n < 0)
		return n;
	if (v->failure.error)
		return tarn_fail_verbatim(
			-v->failure.error, v->failure.message);
	if (o->progress && o->progress(o->arg, v->before + v->done, v->total))
		return tarn_fail(ECANCELED, "cancelled");
	return 0;
}

/* ---- chunks ---------------------------------------------------------- */

/* The end of the next chunk: as far as ranges are adjacent. */
static uint64_t next_end(struct verifier *v)
{
	uint64_t most, end;

	while (v->next < v->n_ranges &&
		v->ranges[v->next].offset + v->ranges[v->next].nbytes <= v->at)
		v->next++;
	if (v->next == v->n_ranges)
		return 0;
	v->at = MAX(v->at, v->ranges[v->next].offset);
	most = round_down_u64(v->at + CHUNK_SIZE, CHUNK_PAGE);
	end = v->at;
	for (size_t i = v->next;
		i < v->n_ranges && end < most && v->ranges[i].offset <= end;
		i++)
		end = MAX(end, v->ranges[i].offset + v->ranges[i].nbytes);
	return MIN(end, most);
}

static int begin(struct verifier *v, uint64_t end)
{
	unsigned index = (unsigned)(v->begun % SLOTS);
	struct slot *slot = &v->slots[index];
	_cleanup_tensor_ tarn_tensor *dst = NULL, *src = NULL;
	struct tarn_copy_options options = {.io_mode = v->options->io_mode};
	int r = chunk_memory(&slot->storage, CHUNK_SIZE + CHUNK_PAGE);

	slot->offset = v->at;
	slot->size = end - v->at;
	if (r >= 0)
		r = chunk_view(slot->storage, slot->offset % CHUNK_PAGE,
			slot->size, &dst);
	if (r >= 0)
		r = chunk_view(v->file->storage,
			slot->offset - v->file->data_offset, slot->size, &src);
	if (r >= 0)
		r = tarn_stream_copy(
			v->stream, dst, src, &options, -1, index, NULL);
	if (r < 0)
		return r;
	slot->reading = true;
	v->at = end;
	v->begun++;
	return 0;
}

/* Sums the chunks that have arrived, in order. */
static int sum_ready(struct verifier *v)
{
	int r = 0;

	while (!r && v->summed < v->begun) {
		struct slot *slot = &v->slots[v->summed % SLOTS];

		if (slot->reading)
			break;
		checksums_feed(&v->sums, slot->offset,
			(const char *)tarn_storage_data(slot->storage) +
				slot->offset % CHUNK_PAGE,
			slot->size);
		v->done += slot->size;
		v->summed++;
		r = report_known(v);
	}
	return r;
}

/* ---- all of them ----------------------------------------------------- */

static int read_all(struct verifier *v)
{
	int r = 0;

	for (;;) {
		uint64_t end = next_end(v);
		bool full = v->begun - v->summed == SLOTS;

		if (!r && end && !full)
			r = begin(v, end);
		if (!r)
			r = sum_ready(v);
		if (r || (!end && v->summed == v->begun))
			break;
		/* Wait only when no more can be begun. */
		full = v->begun - v->summed == SLOTS;
		r = reap(v, full || !next_end(v) ? 1 : 0);
	}
	if (r)
		return r;
	/* A tensor without bytes is in no chunk. */
	checksums_feed(&v->sums, v->file->size, "", 0);
	return report_known(v);
}

static int open_all(struct verifier *v)
{
	struct tarn_stream_options options = {.engine = v->options->engine};
	size_t n = tarn_file_count(v->file);
	int r = verify_claims(v->file, &v->claims);

	if (r < 0)
		return r;
	v->ranges = calloc(n + 1, sizeof(*v->ranges));
	if (!v->ranges)
		return tarn_fail(ENOMEM, "no memory for checksums");
	for (size_t i = 0; i < n; i++) {
		const struct claim *c = &v->claims[i];

		if (c->result < 0)
			continue;
		v->ranges[v->n_ranges++] = (struct checksum_range) {
			.offset = c->tensor->file_offset,
			.nbytes = c->tensor->nbytes,
		};
		v->total += c->tensor->nbytes;
	}
	r = checksums_begin(&v->sums, v->ranges, v->n_ranges);
	return r < 0 ? r : tarn_stream_new(&options, &v->stream);
}

static void close_all(struct verifier *v)
{
	/* First the stream: its requests use the memory. */
	chunk_free_stream(v->stream);
	for (int i = 0; i < SLOTS; i++)
		tarn_storage_unref(v->slots[i].storage);
	checksums_end(&v->sums);
	free(v->ranges);
	free(v->claims);
}

/* before and total: of all the shards, for progress; total 0: there is one
 * file. */
static int verify_one(tarn_file *file, const struct tarn_verify_options *o,
	uint64_t before, uint64_t total, struct tarn_verify_info *info)
{
	struct verifier v = {
		.file = file, .options = o, .info = info, .before = before};
	int r = open_all(&v);

	if (total)
		v.total = total;
	if (r >= 0)
		info->read.engine = tarn_stream_engine(v.stream);
	if (r >= 0)
		r = read_all(&v);
	if (r < 0)
		r = tarn_fail_prefix(r, "%.300s: ", tarn_file_path(file));
	if (r == 0 && v.first)
		r = verify_differs(file, v.first, v.seen);
	close_all(&v);
	return r;
}

/* Damage does not stop it; the sentence is about the first damaged tensor. */
int tarn_file_verify(tarn_file *file, const struct tarn_verify_options *options,
	struct tarn_verify_info *ret_info)
{
	static const struct tarn_verify_options plain;
	size_t n = tarn_file_shard_count(file);
	struct tarn_verify_info info = {0};
	char first[TARN_MESSAGE_MAX] = "";
	uint64_t offset, size, before = 0, total = 0;
	int r = RESERVED_CHECK("tarn_verify_options", options);

	if (r < 0)
		return r;
	copy_begin_times(&info.read);
	if (n > 1)
		tarn_file_data_range(file, &offset, &total);
	for (size_t i = 0; i < n && (r == 0 || r == -EBADMSG); i++) {
		tarn_file *shard = tarn_file_shard(file, i);
		size_t bad = info.bad;

		r = verify_one(shard, options ? options : &plain, before, total,
			&info);
		if (r == -EBADMSG && info.bad == bad)
			return r; /* the metadata is invalid */
		if (r == -EBADMSG && !*first)
			memcpy(first, tarn_fail_message(), sizeof(first));
		tarn_file_data_range(shard, &offset, &size);
		before += size;
	}
	copy_end_times(&info.read);
	if (ret_info && (r == 0 || r == -EBADMSG))
		*ret_info = info;
	if ((r == 0 || r == -EBADMSG) && *first)
		return tarn_fail_verbatim(EBADMSG, first);
	return r;
}
