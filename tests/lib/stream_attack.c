/* SPDX-License-Identifier: MIT */
/*
 * Streams under whatever comes: random mixes of copies between memory and
 * files, of all shapes, sizes and I/O modes, gathered ones and ones that must
 * fail, with little or much buffer, called off and timed out, driven by
 * poll(), by reap or by both, freed in the middle. Every copy must end, once;
 * what ended well has its bytes, what did not has old ones or new ones, and
 * nothing changes after it was reaped. Whether bytes are right is asked of
 * copies from memory to memory.
 *
 * TARN_TEST_SEED=N begins with the round of that seed, which is told when one
 * fails; TARN_TEST_ROUNDS=N is how many for each engine.
 */
#include <sys/mman.h>
#include <time.h>

#include "base/checked.h"
#include "tests/kit/stream_forms.h"
#include "tests/kit/cold.h"
#include "tests/kit/stream.h"

/* Bytes to read and, behind them in their file, what is not there; a zone to
 * write to. Two files: who reads one through the page cache has the kernel read
 * ahead, pages that are being written past it if it is the same. */
enum {
	SRC = 4 << 20,
	ZONE = 6 << 20,
	ABSENT = 3 << 20,
	ROUNDS = 60,
	FEW = 10, /* where each takes long */
	COPIES = 300,
	LIMIT_MS = 60000, /* of a wait, on a machine that is slow */
};

enum kind { MEMORY_MEMORY, MEMORY_FILE, FILE_MEMORY, FILE_FILE, KINDS };

static unsigned char src[SRC], zone[ZONE], model[2][ZONE], scratch[ZONE];
static tarn_storage *src_memory, *zone_memory, *model_memory[2];
static const char *const names[] = {"src", "zone"};
static tarn_storage *files[2], *src_memfd;
static int fds[2];
static bool direct;

struct copy {
	enum kind kind;
	uint64_t id, at, size; /* of the zone */
	bool absent, refused, called_off, ended;
};

struct round {
	tarn_stream *stream;
	const char *engine;
	unsigned char canary;
	enum kind kind; /* of the most copies */
	bool pure;      /* of all */
	uint64_t most;  /* bytes of one, about */
	bool in_memory; /* what is read is in a file system without disk */
	uint64_t used;  /* of the zone */
	struct copy copies[COPIES];
	int count, left;
	int wrong;
};

static bool in_file(enum kind kind)
{
	return kind == MEMORY_FILE || kind == FILE_FILE;
}

static bool from_file(enum kind kind)
{
	return kind == FILE_MEMORY || kind == FILE_FILE;
}

static void wrong(struct round *r, const struct copy *c, const char *what)
{
	r->wrong++;
	diag("%s: copy %d of kind %d, %llu bytes at %llu: %s", r->engine,
		(int)(c - r->copies), (int)c->kind, (unsigned long long)c->size,
		(unsigned long long)c->at, what);
}

/* ---- what is copied -------------------------------------------------- */

/* Of that file, or another of it: a stream has slots for so many. */
static tarn_storage *some_storage(const struct round *r, int which)
{
	char path[4200];
	tarn_storage *s;
	int other;

	if (r->in_memory && which == 0)
		return tarn_storage_ref(src_memfd);
	if (below(3))
		return tarn_storage_ref(files[which]);
	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), names[which]);
	other = open(path, O_RDWR | O_CLOEXEC);
	if (other < 0)
		bail("%s: %m", path);
	s = kit_stream_in_file(other, tarn_storage_size(files[which]));
	close(other);
	return s;
}

static tarn_tensor *view_of(
	tarn_storage *storage, uint64_t at, const struct tarn_layout *l)
{
	tarn_tensor *t = tensor_over(storage, at, l);

	tarn_storage_unref(storage);
	return t;
}

/* Into the model too. 0; -EAGAIN; 1: the zone has no room left. */
static int queue(struct round *r, enum kind kind, const struct form *f,
	uint64_t src_at, bool absent)
{
	struct copy *c = &r->copies[r->count];
	bool to_file = in_file(kind), timed = below(20) == 0;
	tarn_tensor *dst, *from, *to_model, *from_model;
	int result;

	if (r->count == COPIES)
		return 1;
	*c = (struct copy) {
		.kind = kind,
		.at = r->used + (below(4) ? 0 : below(5000)),
		.size = form_reach(&f->dst),
		.absent = absent,
		.refused = r->in_memory && from_file(kind) &&
			   f->options.io_mode == TARN_IO_DIRECT,
		.called_off = timed,
	};
	if (c->at + c->size > ZONE)
		return 1;
	r->used = c->at + c->size;
	dst = view_of(
		to_file ? some_storage(r, 1) : tarn_storage_ref(zone_memory),
		c->at, &f->dst);
	from = view_of(from_file(kind) ? some_storage(r, 0)
				       : tarn_storage_ref(src_memory),
		src_at, &f->src);
	if (!absent) {
		to_model = tensor_over(model_memory[to_file], c->at, &f->dst);
		from_model = tensor_over(src_memory, src_at, &f->src);
		if (tarn_copy(to_model, from_model, &f->options, NULL) < 0)
			bail("%s", tarn_error_message());
		tarn_tensor_unref(to_model);
		tarn_tensor_unref(from_model);
	}
	result = tarn_stream_copy(r->stream, dst, from, &f->options,
		timed ? (int)below(4) : -1, (uint64_t)r->count, &c->id);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(from);
	if (result == 0) {
		r->count++;
		r->left++;
	} else {
		memset(model[to_file] + c->at, r->canary, c->size);
		if (result != -EAGAIN)
			wrong(r, c, tarn_error_message());
	}
	return result;
}

static int queue_one(struct round *r)
{
	enum kind kind =
		r->pure || below(3) ? r->kind : (enum kind)below(KINDS);
	bool absent = from_file(kind) && below(30) == 0;
	struct form f;
	uint64_t size;

	form_some(&f, in_file(kind), r->most, direct);
	size = form_reach(&f.src);
	if (absent && size > 0)
		return queue(r, kind, &f, SRC - below(size), true);
	return queue(r, kind, &f, below(SRC - size + 1), false);
}

/* Small reads, one behind the other, which are gathered; some of them from
 * where there is nothing. */
static int queue_company(struct round *r)
{
	uint64_t n = 2 + below(50), size = 1 + below(20000);
	uint64_t at = below(SRC - n * (size + 100)), gap = below(100);
	bool absent = below(10) == 0;
	int result = 0;
	struct form f = {0};

	if (absent)
		at = SRC - below(size);
	form_run(&f.dst, TARN_U8, (int64_t)size, 1);
	f.src = f.dst;
	form_io_mode(&f.options, direct);
	for (; n-- > 0 && result == 0; at += size + gap)
		if (at + size <= SRC + ABSENT)
			result = queue(r, FILE_MEMORY, &f, at, absent);
	return result;
}

/* ---- what became of it ----------------------------------------------- */

static const unsigned char *now_at(const struct copy *c)
{
	if (!in_file(c->kind))
		return zone + c->at;
	memset(scratch, 0, c->size);
	if (fd_pread(fds[1], scratch, c->size, c->at) < 0)
		bail("pread: %m");
	return scratch;
}

static void put(const void *bytes, size_t size, uint64_t at)
{
	if (lseek(fds[1], (off_t)at, SEEK_SET) < 0 ||
		fd_write_all(fds[1], bytes, size) < 0)
		bail("the file: %m");
}

/* It has not ended well: its place becomes as if it had never been. */
static void forget(struct round *r, struct copy *c)
{
	unsigned char *wanted = model[in_file(c->kind)] + c->at;
	const unsigned char *seen = now_at(c);

	for (uint64_t i = 0; i < c->size; i++)
		if (!c->absent && seen[i] != wanted[i] &&
			seen[i] != r->canary) {
			wrong(r, c, "bytes that are neither old nor new");
			break;
		}
	memset(wanted, r->canary, c->size);
	if (!in_file(c->kind))
		memset(zone + c->at, r->canary, c->size);
	else
		put(wanted, c->size, c->at);
}

static void judge(struct round *r, const struct tarn_completion *done)
{
	struct copy *c = &r->copies[done->user];

	if (done->user >= (uint64_t)r->count || c->ended || c->id != done->id) {
		r->wrong++;
		diag("%s: an end of what was not begun", r->engine);
		return;
	}
	c->ended = true;
	r->left--;
	if (done->result == 0) {
		if (c->absent && c->size > 0)
			wrong(r, c, "it read what is not there");
		else if (c->refused && c->size > 0)
			wrong(r, c, "direct I/O where there is none");
		else if (memcmp(now_at(c), model[in_file(c->kind)] + c->at,
				 c->size))
			wrong(r, c, "not its bytes");
		return;
	}
	if (!(c->absent && done->result == -ENODATA) &&
		!(c->refused && done->result == -EINVAL) &&
		!(c->called_off && (done->result == -ECANCELED ||
					   done->result == -ETIMEDOUT)))
		wrong(r, c, done->message);
	forget(r, c);
}

/* At the end: what was written once was not written again. */
static void check_zone(struct round *r, const char *name,
	const unsigned char *seen, const unsigned char *wanted)
{
	size_t at = 0, end = ZONE;

	while (at < ZONE && seen[at] == wanted[at])
		at++;
	while (end > at && seen[end - 1] == wanted[end - 1])
		end--;
	if (at == ZONE)
		return;
	r->wrong++;
	diag("%s: at the end of %d copies, bytes %zu to %zu of %s differ; the "
	     "first is %d, not %d",
		r->engine, r->count, at, end, name, seen[at], wanted[at]);
	for (int i = 0; i < r->count; i++) {
		const struct copy *c = &r->copies[i];

		if (c->at < end && at < c->at + c->size)
			diag("copy %d of kind %d: %llu to %llu%s%s", i,
				(int)c->kind, (unsigned long long)c->at,
				(unsigned long long)(c->at + c->size),
				c->called_off ? ", called off" : "",
				c->ended ? "" : ", not reaped");
	}
}

static void check_end(struct round *r)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct tarn_stream_progress p;

	tarn_stream_progress(r->stream, &p);
	if (r->left == 0 && (p.copies_waiting || p.copies_running)) {
		r->wrong++;
		diag("%s: some are not done, and all were reaped", r->engine);
	}
	tarn_stream_free(r->stream);
	for (int i = 0; i < r->count; i++)
		if (!r->copies[i].ended)
			forget(r, &r->copies[i]);
	nanosleep(&pause, NULL);
	memset(scratch, 0, ZONE);
	if (fd_pread(fds[1], scratch, ZONE, 0) < 0)
		bail("pread: %m");
	check_zone(r, "memory", zone, model[0]);
	check_zone(r, "the file", scratch, model[1]);
}

/* ---- a round --------------------------------------------------------- */

static void begin_round(struct round *r, const char *engine)
{
	static const uint64_t most[] = {40000, 300000, 2500000};
	static const uint64_t buffers[] = {1, 1 << 20, 2 << 20, 5 << 20, 0};
	const struct tarn_stream_options o = {
		.engine = engine,
		.copies = below(2) ? 0 : 1 + (uint32_t)below(60),
		.buffer = buffers[below(5)],
	};
	/* The zone is in the file, or comes to be in it. */
	bool there = below(2);

	*r = (struct round) {
		.engine = engine,
		.canary = there ? 0xA5 : 0,
		.kind = (enum kind)below(KINDS),
		.pure = below(2),
		.most = most[below(3)],
		.in_memory = below(5) == 0,
	};
	memset(zone, r->canary, ZONE);
	for (int i = 0; i < 2; i++)
		memset(model[i], r->canary, ZONE);
	if (ftruncate(fds[1], 0) < 0)
		bail("ftruncate: %m");
	if (there)
		put(zone, ZONE, 0);
	if (below(6) == 0)
		cold_try(fds[below(2)]);
	if (tarn_stream_new(&o, &r->stream) < 0)
		bail("%s", tarn_error_message());
}

static void cancel_some(struct round *r)
{
	struct copy *c = &r->copies[below((uint64_t)MAX(r->count, 1))];
	bool all = below(15) == 0;

	if (r->count == 0 || tarn_stream_cancel(r->stream, all ? 0 : c->id) < 0)
		return;
	c->called_off = true;
	for (int i = 0; all && i < r->count; i++)
		r->copies[i].called_off = true;
}

/* False: it hangs. */
static bool reap_some(struct round *r, bool by_poll, bool patient)
{
	struct pollfd p = {.events = POLLIN};
	struct tarn_completion done[8];
	int least = 0, limit = 0, n;

	if (by_poll) {
		p.fd = tarn_stream_fd(r->stream);
		if (poll(&p, 1, LIMIT_MS) != 1)
			return false;
	} else {
		least = (int)below(patient ? (uint64_t)r->left : 3);
		limit = patient ? LIMIT_MS : (int)below(3);
		least += patient;
	}
	n = tarn_stream_reap(r->stream, least, limit, done, 1 + (int)below(8));
	for (int i = 0; i < n; i++)
		judge(r, &done[i]);
	return n >= (patient && !by_poll);
}

static bool play(struct round *r, const char *engine)
{
	int way = (int)below(3);
	bool more = true, freed = below(6) == 0, moves = true;

	begin_round(r, engine);
	while (moves && (more || r->left > 0)) {
		if (more && below(3)) {
			int n = r->pure || below(4) ? queue_one(r)
						    : queue_company(r);

			more = n != 1 && r->wrong == 0;
			moves = n != -EAGAIN || r->left > 0;
		} else if (below(8) == 0) {
			cancel_some(r);
		} else if (r->left > 0) {
			moves = reap_some(r, way == 0 || (way == 1 && below(2)),
				way == 2 || below(2));
		}
		if (freed && r->count > 20 && below(8) == 0)
			break;
	}
	if (!moves) {
		r->wrong++;
		diag("%s: %d of %d copies do not end", engine, r->left,
			r->count);
	}
	check_end(r);
	return r->wrong == 0;
}

/* ---- all ------------------------------------------------------------- */

static void attack(const char *engine, uint64_t first, uint64_t rounds)
{
	static struct round r;
	uint64_t i = 0, copies = 0;
	bool good = true;

	for (; good && i < rounds; i++) {
		form_seed(first + i);
		good = play(&r, engine);
		copies += (uint64_t)r.count;
	}
	if (!good)
		diag("TARN_TEST_SEED=%llu",
			(unsigned long long)(first + i - 1));
	ok(good, "%s: %llu rounds of %llu copies end as they should", engine,
		(unsigned long long)i, (unsigned long long)copies);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

int main(void)
{
	char path[4200];
	int probe, memfd;

	fill_noise(src, SRC, 1);
	fds[0] = kit_stream_file(names[0], src, SRC);
	fds[1] = kit_stream_file(names[1], NULL, 0);
	files[0] = kit_stream_in_file(fds[0], SRC + ABSENT);
	files[1] = kit_stream_in_file(fds[1], ZONE);
	memfd = memfd_create(names[0], MFD_CLOEXEC);
	if (memfd < 0 || fd_write_all(memfd, src, SRC) < 0)
		bail("memfd: %m");
	src_memfd = kit_stream_in_file(memfd, SRC + ABSENT);
	close(memfd);
	/* The test's own reads are not to read ahead either. */
	posix_fadvise(fds[1], 0, 0, POSIX_FADV_RANDOM);
	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), names[1]);
	probe = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	direct = probe >= 0;
	fd_close(probe);
	src_memory = kit_stream_in_memory(src, SRC);
	zone_memory = kit_stream_in_memory(zone, ZONE);
	for (int i = 0; i < 2; i++)
		model_memory[i] = kit_stream_in_memory(model[i], ZONE);
	for (unsigned i = 0; i < 2; i++)
		if (engine_works(engines[i]))
			attack(engines[i], number("TARN_TEST_SEED", 1),
				number("TARN_TEST_ROUNDS",
					getenv("TARN_TEST_SAMPLE") ? FEW
								   : ROUNDS));
		else
			skip(1, "%s: %s", engines[i], tarn_error_message());
	for (int i = 0; i < 2; i++) {
		tarn_storage_unref(model_memory[i]);
		tarn_storage_unref(files[i]);
		close(fds[i]);
		kit_stream_unlink(names[i]);
	}
	tarn_storage_unref(src_memfd);
	tarn_storage_unref(zone_memory);
	tarn_storage_unref(src_memory);
	return done(2);
}
