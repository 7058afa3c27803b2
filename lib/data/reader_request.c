// SPDX-License-Identifier: MIT
/*
 * Reads of files. Extents that are near each other are one request, of which up
 * to TARN_IO_DEPTH are under way.
 *
 * Requests read into buffers of this process's own, never into the place: the
 * kernel may finish the reads of a process that was killed when its slot is
 * another's already. The copy from a buffer, which the CPU's cache still has,
 * converts tokens, too, and permits direct reads, which begin and end with blocks.
 */
#include <errno.h>

#include "base/checked.h"
#include "lib/data/reader.h"

/* ---- files ----------------------------------------------------------------- */

static void begin_file(struct read_file *file)
{
	int direct = storage_file_direct(file->storage);

	file->begun = true;
	/* Its only error is of TARN_IO_DIRECT. */
	(void)io_mode_init(&file->io_mode, file->file->fd, direct, TARN_IO_AUTO,
		io_fs_of(file->file->fd));
	file->io_mode.prompt = io_nowait_works(file->file->fd);
}

static void close_file(struct reader *reader, struct read_file *file)
{
	if (file->buffered >= 0)
		tarn_io_drop_file(reader->io, file->buffered);
	if (file->direct >= 0)
		tarn_io_drop_file(reader->io, file->direct);
	file->buffered = file->direct = -1;
}

static void close_idle(struct reader *reader)
{
	for (size_t i = 0; i < reader->n_files; i++)
		if (!reader->files[i].in_flight)
			close_file(reader, &reader->files[i]);
}

/* Where the engine has too many open, those that are not in use are closed. */
static int open_slot(struct reader *reader, int fd, int *slot)
{
	if (*slot >= 0)
		return 0;
	*slot = tarn_io_add_file(reader->io, fd);
	if (*slot == -EMFILE) {
		close_idle(reader);
		*slot = tarn_io_add_file(reader->io, fd);
	}
	return MIN(*slot, 0);
}

static int open_file(
	struct reader *reader, struct read_file *file, enum io_kind kind)
{
	return kind == IO_KIND_DIRECT
		       ? open_slot(reader, storage_file_direct(file->storage),
				 &file->direct)
		       : open_slot(reader, file->file->fd, &file->buffered);
}

/* ---- requests ----------------------------------------------------------------- */

static void request_done(struct tarn_io_request *req);

static void queue(struct read_request *q)
{
	bool direct = q->kind == IO_KIND_DIRECT;
	uint64_t from = direct ? round_down_u64(q->pos, q->block) : q->pos;
	uint64_t to = q->need;
	int r;

	/* Files end before 2^63. */
	if (direct)
		to = round_down_u64(to + q->block - 1, q->block);
	q->req = (struct tarn_io_request) {
		.file = direct ? q->file->direct : q->file->buffered,
		.buffer = q->reader->registered ? 0 : -1,
		.offset = from,
		.addr = q->buffer + (from - q->base),
		.size = (uint32_t)(to - from),
		.may_block = !direct && q->file->io_mode.fs == IO_FS_REMOTE,
		.done = request_done,
	};
	reader_count(&q->reader->counts->requests, 1);
	r = tarn_io_read(q->reader->io, &q->req);
	assert(r ==
		0); /* there is room: reader_begin looked, and one that is done
			 * leaves its own */
	(void)r;
}

static void scatter(struct read_request *q)
{
	for (size_t i = q->first; i < q->first + q->n; i++) {
		const struct read_extent *e = &q->part->extents[i];

		if (!reader_deliver(q->reader, q->file,
			    q->buffer + (e->at - q->base), e->size, e->to))
			q->part->failed = true;
	}
}

static void retire(struct read_request *q)
{
	q->part->in_flight--;
	q->file->in_flight--;
	q->reader->unused |= UINT64_C(1) << (q - q->reader->requests);
}

/* The file refused a direct read: it is read through the page cache. */
static bool goes_on_buffered(struct read_request *q)
{
	if (q->kind != IO_KIND_DIRECT ||
		(q->req.res != -EINVAL && q->req.res != -EOPNOTSUPP))
		return false;
	io_mode_refused(&q->file->io_mode);
	q->kind = IO_KIND_BUFFERED;
	return open_file(q->reader, q->file, q->kind) >= 0;
}

static void request_done(struct tarn_io_request *req)
{
	struct read_request *q = (struct read_request *)req;
	uint64_t reached = req->offset + (uint64_t)MAX(req->res, 0);
	bool again = false;

	if (req->res > 0)
		reader_count(
			&q->reader->counts->file_bytes, (uint64_t)req->res);
	if (reached > q->pos) {
		q->pos = MIN(reached, q->need);
		q->retries = 0;
		again = q->pos < q->need;
	} else if (req->res == -EAGAIN || req->res == -EINTR) {
		again = ++q->retries < READER_RETRIES;
	} else {
		again = goes_on_buffered(q);
	}
	if (again && !q->part->failed) {
		queue(q);
		return;
	}
	if (q->pos == q->need && !q->part->failed) {
		q->next = q->reader->landed;
		q->reader->landed = q;
	} else {
		q->part->failed = true;
		retire(q);
	}
}

bool reader_settle(struct reader *reader)
{
	for (unsigned n = 0; reader->landed && n < READER_STARTED; n++) {
		struct read_request *q = reader->landed;

		reader->landed = q->next;
		scatter(q);
		retire(q);
	}
	return reader->landed;
}

/* How many extents from the first on one request reads, and up to where. */
static size_t join(const struct ahead_part *part, size_t first, uint64_t gap,
	uint64_t *ret_end)
{
	const struct read_extent *e = &part->extents[first];
	uint64_t begin = e->at, end = e->at + e->size;
	size_t n = 1;

	for (; first + n < part->n; n++) {
		const struct read_extent *next = e + n;
		uint64_t to = MAX(end, next->at + next->size);

		if (next->file != e->file || next->at > end + gap ||
			to - begin > READER_REQUEST)
			break;
		end = to;
	}
	*ret_end = end;
	return n;
}

static int begin_request(struct reader *reader, struct ahead_part *part)
{
	const struct read_extent *e = &part->extents[part->begun];
	struct read_file *file = &reader->files[e->file];
	struct read_request *q =
		&reader->requests[__builtin_ctzll(reader->unused)];
	int r;

	if (!file->begun)
		begin_file(file);
	q->kind = io_mode_just(&file->io_mode, e->at, e->at + e->size);
	r = open_file(reader, file, q->kind);
	if (r < 0)
		return r;
	q->part = part;
	q->file = file;
	q->first = part->begun;
	q->n = join(part, q->first, q->kind == IO_KIND_CACHED ? 0 : READER_GAP,
		&q->need);
	q->pos = e->at;
	q->base = round_down_u64(e->at, READER_BLOCK);
	q->retries = 0;
	q->block = file->io_mode.align.offset;
	part->begun += q->n;
	part->in_flight++;
	file->in_flight++;
	reader->unused &= reader->unused - 1;
	queue(q);
	return 0;
}

bool reader_begin(struct reader *reader, struct ahead_part *part)
{
	unsigned n = 0;

	while (part->begun < part->n && !part->failed && !reader->broken) {
		if (!reader->unused ||
			tarn_io_pending(reader->io) == TARN_IO_DEPTH)
			return false;
		if (begin_request(reader, part) >= 0) {
			if (++n % READER_STARTED == 0)
				tarn_io_start(reader->io);
			continue;
		}
		/* Slots of files come free with requests that are done. */
		if (tarn_io_pending(reader->io))
			return false;
		part->failed = true;
	}
	return true;
}

bool reader_busy(const struct reader *reader)
{
	return reader->io && !reader->broken && tarn_io_pending(reader->io);
}

void reader_wait(struct reader *reader, int timeout_ms)
{
	unsigned n = reader_busy(reader) ? tarn_io_pending(reader->io) : 0;

	if (!n)
		return;
	/* Waking for each costs as much as a request; an eighth keeps the drive
	 * busy meanwhile. */
	n = timeout_ms ? 1 : 0;
	reader->broken = tarn_io_submit_and_wait(reader->io, n, timeout_ms) < 0;
}

bool reader_finished(struct reader *reader, struct ahead_part *part)
{
	uint32_t checked = UINT32_MAX;

	part->failed |= reader->broken;
	if ((part->in_flight && !reader->broken) ||
		(part->begun < part->n && !part->failed))
		return false;
	for (size_t i = 0; !part->failed && i < part->n; i++) {
		uint32_t file = part->extents[i].file;

		if (file == checked)
			continue;
		checked = file;
		part->failed = storage_file_check(reader->files[file].file) < 0;
	}
	return true;
}
