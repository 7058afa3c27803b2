/* SPDX-License-Identifier: MIT */
/*
 * The file is written in chunks, one after the other, many under way at once.
 *
 * A chunk is either straight, bytes of one tensor that are in memory in the
 * file's form, or a staging buffer that is gathered first (staging.c). All
 * begin and end at multiples of CHUNK_PAGE, so that they go by direct I/O
 * whatever the tensors' offsets are, and no two share a page.
 *
 * A tensor whose order in its source differs is read into memory when its first
 * chunk begins, and freed after its last (transposed.c).
 *
 * Each chunk passes through a slot: filled (reads of files may be under way for
 * it), summed, written. Summing keeps the order of the file, and needs no
 * second look at the source. The chunk with the head comes first, and waits
 * with its write until the end: so a truncated file is never taken for a
 * complete one, and the checksums are known by then.
 */
#include "lib/save/writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/text.h"
#include "lib/save/checksums.h"
#include "lib/save/chunk_io.h"
#include "lib/save/staging.h"
#include "lib/save/transposed.h"

struct slot {
	struct staging staging; /* memory is kept for the next chunk */
	/* or NULL: the bytes are in the staging buffer */
	const struct part *straight;
	unsigned reading; /* copies into it */
	bool busy, writing;
};

struct writer {
	struct save_plan *plan;
	const struct tarn_save_options *options;
	tarn_stream *stream;
	tarn_storage *file;
	struct slot slots[SLOTS + 1]; /* the last is the head's */
	uint64_t at;                  /* where the next chunk begins */
	uint64_t begun, ready;        /* chunks but the head's */
	unsigned busy;                /* slots */
	struct checksum_range *ranges;
	struct checksums sums;
	uint64_t done; /* bytes read into memory and written */
	size_t gone;   /* parts that were freed */
	struct tarn_copy_info *info;
	struct chunk_failure failure;
};

/* ---- what has happened ----------------------------------------------- */

static void take(struct writer *w, const struct tarn_completion *c)
{
	struct slot *slot = &w->slots[c->user];

	chunk_count(w->info, &w->failure, c);
	if (!slot->writing) {
		slot->reading--;
		return;
	}
	w->done += slot->staging.size;
	slot->busy = slot->writing = false;
	w->busy--;
}

/* A copy's sentence names the file that it writes, which has no useful name
 * yet: " of NAME" is removed. */
static void unname(const struct writer *w, char *message)
{
	char name[1 + 4 + 255] = " of ";
	char *at;

	storage_file_name(storage_file(w->file), name + 4, sizeof(name) - 4);
	at = name[4] ? strstr(message, name) : NULL;
	if (at)
		memmove(at, at + strlen(name), strlen(at + strlen(name)) + 1);
}

static int report_progress(struct writer *w)
{
	const struct tarn_save_options *o = w->options;

	if (w->failure.error) {
		unname(w, w->failure.message);
		return tarn_fail_verbatim(
			-w->failure.error, w->failure.message);
	}
	if (o->progress && o->progress(o->arg, w->done, w->plan->work))
		return tarn_fail(ECANCELED, "cancelled");
	return 0;
}

static int reap(struct writer *w, size_t at_least)
{
	struct tarn_completion done[REAPED_AT_ONCE];
	int n = tarn_stream_reap(w->stream, at_least,
		w->options->progress ? PROGRESS_MS : -1, done, REAPED_AT_ONCE);

	for (int i = 0; i < n; i++)
		take(w, &done[i]);
	return n < 0 ? n : report_progress(w);
}

static int reap_one(void *arg)
{
	return reap(arg, 1);
}

/* ---- what lies transposed --------------------------------------------- */

static int report_copied(void *arg, uint64_t done, uint64_t total)
{
	const struct writer *w = arg;
	const struct tarn_save_options *o = w->options;

	(void)total;
	return o->progress(o->arg, w->done + done, w->plan->work);
}

static int bring_in(struct writer *w, struct part *p)
{
	const struct tarn_copy_options options = {
		.io_mode = w->options->io_mode,
		.engine = w->options->engine,
		.channel_dim = -1,
		.progress = w->options->progress ? report_copied : NULL,
		.arg = w,
	};
	int r = transposed_load(p, &options, w->info);

	if (r > 0)
		w->done += p->transposed;
	else if (r == 0) {
		w->plan->work -= p->transposed;
		p->transposed = 0;
	}
	return r < 0 ? r : 0;
}

/* For a chunk that ends there. Frees earlier parts, whose copies are done when
 * it begins. */
static int bring_until(struct writer *w, uint64_t end)
{
	struct save_plan *plan = w->plan;
	size_t first = save_plan_find(plan, w->at);
	int r = 0;

	for (; w->gone < first; w->gone++) {
		struct part *p = &plan->parts[w->gone];

		if (p->transposed && p->memory)
			p->src = tarn_tensor_unref(p->src);
	}
	for (size_t i = first;
		r >= 0 && i < plan->n && plan->parts[i].offset < end; i++)
		if (plan->parts[i].transposed && !plan->parts[i].memory)
			r = bring_in(w, &plan->parts[i]);
	return r;
}

/* ---- a chunk --------------------------------------------------------- */

static int begin(struct writer *w, unsigned index, uint64_t end,
	const struct part *straight)
{
	struct slot *slot = &w->slots[index];
	int r = 0;

	slot->staging.offset = w->at;
	slot->staging.size = end - w->at;
	slot->straight = straight;
	slot->busy = true;
	w->busy++;
	if (straight) {
		w->at = end;
		return 0;
	}
	r = bring_until(w, end);
	w->at = end;
	if (r < 0)
		return r;
	r = chunk_memory(&slot->staging.storage, slot->staging.size);
	if (r < 0)
		return r;
	return staging_fill(&slot->staging, w->plan, w->stream, index, reap_one,
		w, &slot->reading);
}

static const char *bytes_of(const struct slot *slot)
{
	const struct part *p = slot->straight;

	if (p)
		return p->bytes + (slot->staging.offset - p->offset);
	return tarn_storage_data(slot->staging.storage);
}

static int write_slot(struct writer *w, unsigned index)
{
	struct slot *slot = &w->slots[index];
	_cleanup_tensor_ tarn_tensor *dst = NULL, *src = NULL;
	struct tarn_copy_options options = {.io_mode = w->options->io_mode};
	const struct part *p = slot->straight;
	tarn_storage *from = p ? p->src->storage : slot->staging.storage;
	uint64_t base = (uint64_t)(bytes_of(slot) -
				   (const char *)tarn_storage_data(from));
	int r = chunk_view(from, base, slot->staging.size, &src);

	if (r >= 0)
		r = chunk_view(w->file, slot->staging.offset,
			slot->staging.size, &dst);
	while (r >= 0) {
		r = tarn_stream_copy(
			w->stream, dst, src, &options, -1, index, NULL);
		if (r != -EAGAIN)
			break;
		r = reap(w, 1);
	}
	slot->writing = r >= 0;
	return r;
}

/* ---- all of them ----------------------------------------------------- */

static void sum(struct writer *w, const struct slot *slot)
{
	if (w->ranges)
		checksums_feed(&w->sums, slot->staging.offset, bytes_of(slot),
			slot->staging.size);
}

/* Sums and writes full chunks, in order; the head's chunk, which comes first,
 * is only summed. Returns how many. */
static int write_ready(struct writer *w)
{
	int n = 0, r = 0;

	while (r >= 0 && w->ready < w->begun) {
		unsigned index = (unsigned)(w->ready % SLOTS);

		if (w->slots[index].reading)
			break;
		sum(w, &w->slots[index]);
		r = write_slot(w, index);
		w->ready++;
		n++;
	}
	return r < 0 ? r : n;
}

/* Begins the chunk with the head, except the head itself. */
static int begin_head(struct writer *w)
{
	struct slot *slot = &w->slots[SLOTS];
	int r = begin(w, SLOTS, first_chunk(w->plan), NULL);

	while (r >= 0 && slot->reading)
		r = reap(w, 1);
	if (r >= 0)
		sum(w, slot);
	return r;
}

static void write_digits(struct writer *w)
{
	static const char digits[] = "0123456789abcdef";
	const struct save_plan *plan = w->plan;

	for (size_t i = 0; w->ranges && i < plan->n; i++)
		for (int k = 0; k < HEAD_DIGITS; k++)
			plan->head.bytes[plan->parts[i].digits + (uint64_t)k] =
				digits[w->ranges[i].value >> (60 - 4 * k) & 15];
}

/* A tensor whose checksum differs from the required one was read damaged. */
static int compare_sums(const struct writer *w)
{
	const struct save_plan *plan = w->plan;

	for (size_t i = 0; w->ranges && i < plan->n; i++) {
		const struct tarn_save_item *item = plan->parts[i].item;
		char shown[FILE_TEXT_MAX];

		if (!item->checksum || *item->checksum == w->ranges[i].value)
			continue;
		return tarn_fail(EBADMSG,
			"tensor '%s' is damaged where it comes from: its "
			"checksum is %016llx, and must be %016llx",
			file_clean(item->name, strlen(item->name), shown),
			(unsigned long long)w->ranges[i].value,
			(unsigned long long)*item->checksum);
	}
	return 0;
}

static int end_head(struct writer *w)
{
	const struct head *head = &w->plan->head;
	int r = compare_sums(w);

	if (r < 0)
		return r;
	write_digits(w);
	memcpy(tarn_storage_data(w->slots[SLOTS].staging.storage), head->bytes,
		head->size);
	r = write_slot(w, SLOTS);
	while (r >= 0 && w->busy)
		r = reap(w, 1);
	return r;
}

static int write_all(struct writer *w)
{
	int r = begin_head(w);

	/* The head's slot stays busy. */
	while (r >= 0 && (w->at < w->plan->head.file_size || w->busy > 1)) {
		unsigned index = (unsigned)(w->begun % SLOTS);
		const struct part *straight;
		uint64_t end;
		bool moved = false;

		if (w->at < w->plan->head.file_size && !w->slots[index].busy) {
			end = next_chunk(w->plan, w->at, &straight);
			r = begin(w, index, end, straight);
			w->begun++;
			moved = true;
		}
		if (r >= 0)
			r = write_ready(w);
		if (r >= 0)
			r = reap(w, moved || r > 0 ? 0 : 1);
	}
	return r < 0 ? r : end_head(w);
}

/* Makes all that write_all needs; the caller frees it. */
static int open_all(struct writer *w, int fd)
{
	struct tarn_stream_options options = {.engine = w->options->engine};
	size_t n = w->plan->n;
	int r = tarn_storage_to_fd(fd, 0, w->plan->head.file_size, &w->file);

	if (r >= 0)
		r = tarn_stream_new(&options, &w->stream);
	if (r < 0 || !w->options->checksums)
		return r;
	w->ranges = calloc(n + 1, sizeof(*w->ranges));
	if (!w->ranges)
		return tarn_fail(ENOMEM, "no memory for checksums");
	for (size_t i = 0; i < n; i++) {
		w->ranges[i].offset = w->plan->parts[i].offset;
		w->ranges[i].nbytes = w->plan->parts[i].nbytes;
	}
	return checksums_begin(&w->sums, w->ranges, n);
}

static void close_all(struct writer *w)
{
	/* First the stream: its requests use the memory. */
	chunk_free_stream(w->stream);
	for (unsigned i = 0; i <= SLOTS; i++)
		tarn_storage_unref(w->slots[i].staging.storage);
	tarn_storage_unref(w->file);
	checksums_end(&w->sums);
	free(w->ranges);
}

int save_write(struct save_plan *plan, const struct tarn_save_options *options,
	int fd, struct tarn_copy_info *info)
{
	struct writer w = {.plan = plan, .options = options, .info = info};
	int r;

	r = open_all(&w, fd);
	if (r >= 0)
		r = write_all(&w);
	if (r >= 0) {
		info->bytes = plan->bytes;
		info->engine = tarn_stream_engine(w.stream);
	}
	close_all(&w);
	return r;
}
