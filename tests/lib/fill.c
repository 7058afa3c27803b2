/* SPDX-License-Identifier: MIT */
/*
 * A fill brings exactly the bytes that were asked for, wherever range, file
 * end and segment borders lie, and touches nothing outside its allocation: by
 * both engines, directly and not, registered and not.
 */
#include <stdlib.h>

#include "lib/io/direct.h"
#include "tests/kit/filling.h"

enum { FILE_SIZE = 3 * SEGMENT + 123, CASES = 80 };

struct io_mode {
	const char *name;
	bool buffered, enrol;
};

static const struct io_mode io_modes[] = {
	{"direct, registered", false, true},
	{"direct", false, false},
	{"buffered, registered", true, true},
	{"buffered", true, false},
};

static unsigned ran, by = 1;

/* True when the fill did as it should; says what it did else. */
static bool fill_one(struct tarn_io *io, struct pool *p,
	const struct tarn_fill_job *j, bool direct)
{
	_cleanup_fill_ struct tarn_fill *f = NULL;
	int64_t wrong;
	int r;

	ran++;
	reset_pool(p);
	r = tarn_fill_new(io, j, &f);
	if (r >= 0)
		r = tarn_fill_run(f);
	wrong = first_wrong(p, j);
	if (r == 0 && wrong < 0 && tarn_fill_landed(f) == j->size &&
		tarn_fill_direct(f) == direct)
		return true;
	diag("[%llu, +%llu) to %llu: result %d (%s), wrong byte at %lld",
		(unsigned long long)j->file_offset, (unsigned long long)j->size,
		(unsigned long long)j->base, r,
		r < 0 ? tarn_fail_message() : "", (long long)wrong);
	return false;
}

/* Begins and sizes around everything that is a border somewhere. */
static int fill_many(struct tarn_io *io, struct pool *p, const struct files *fs,
	const struct io_mode *io_mode)
{
	static const uint64_t begins[] = {0, 8, 511, 512, 4095, 4097, 100000,
		SEGMENT / 2 - 1, SEGMENT, FILE_SIZE - 600};
	static const uint64_t sizes[] = {
		0, 1, 512, 4096, 70001, SEGMENT, SEGMENT + 3, FILE_SIZE};
	static const uint64_t places[] = {0, 4096, SEGMENT - 4096};
	bool direct = !io_mode->buffered && fs->direct >= 0 &&
		      tarn_direct_alignment(fs->direct) > 0;
	int wrong = 0;

	for (unsigned i = 0; i < CASES; i += by) {
		unsigned b = i / 8, s = i % 8;
		uint64_t place = places[(b + s) % 3];
		uint64_t left = FILE_SIZE - begins[b];
		uint64_t size = sizes[s] < left ? sizes[s] : left;
		struct tarn_fill_job j;

		if (place + 4096 + size > (uint64_t)SEGMENTS * SEGMENT)
			place = 0;
		j = job_for(fs, p, place, begins[b], size);
		if (io_mode->buffered)
			j.io_mode = TARN_IO_BUFFERED;
		wrong += !fill_one(io, p, &j, direct);
	}
	return wrong;
}

static void test_io_modes(const char *name, const struct files *fs)
{
	for (unsigned i = 0; i < 4; i++) {
		struct tarn_io *io = engine(name, -1);
		struct pool p;

		make_pool(&p, io, io_modes[i].enrol);
		ran = 0;
		is_int(0, fill_many(io, &p, fs, &io_modes[i]),
			"%s: every fill brings exactly its bytes, %s", name,
			io_modes[i].name);
		is_int((CASES + by - 1) / by, ran,
			"%s: so many fills were run, %s", name,
			io_modes[i].name);
		tarn_io_free(io);
		drop_pool(&p);
	}
}

/* Files so small, or ending so, that no block of theirs is whole. */
static void test_tiny(const char *name)
{
	static const uint64_t sizes[] = {1, 7, 511, 513, 4095, 4096, 4097};
	struct tarn_io *io = engine(name, -1);
	struct pool p;
	int wrong = 0;

	make_pool(&p, io, true);
	for (unsigned i = 0; i < 7; i++) {
		struct files fs;
		struct tarn_fill_job j;

		make_file(&fs, "tiny", sizes[i]);
		j = job_for(&fs, &p, SEGMENT - 4096, 0, sizes[i]);
		wrong += !fill_one(io, &p, &j,
			fs.direct >= 0 && tarn_direct_alignment(fs.direct) > 0);
		drop_files(&fs);
	}
	is_int(0, wrong, "%s: fills of tiny files bring exactly their bytes",
		name);
	tarn_io_free(io);
	drop_pool(&p);
}

/* Where the place is not congruent, or has no slack, bytes are read buffered;
 * they are the same bytes. */
static void test_no_direct(const char *name, const struct files *fs)
{
	struct tarn_io *io = engine(name, -1);
	struct pool p;
	struct tarn_fill_job j;

	make_pool(&p, io, true);
	j = job_for(fs, &p, 4096, 1000, 2 * SEGMENT);
	j.base++;
	j.alloc_size += 4096;
	ok(fill_one(io, &p, &j, false),
		"%s: a fill to an address one byte off brings its bytes", name);

	j = job_for(fs, &p, 4096, 1000, 2 * SEGMENT);
	j.alloc_offset = j.base;
	j.alloc_size = j.size;
	ok(fill_one(io, &p, &j, false),
		"%s: a fill without slack around it brings its bytes", name);

	j = job_for(fs, &p, 4096, 1000, 2 * SEGMENT);
	j.direct_fd = -1;
	ok(fill_one(io, &p, &j, false),
		"%s: a fill without a direct descriptor brings its bytes",
		name);

	/* A descriptor that refuses to be read so tells only when read. */
	j = job_for(fs, &p, 4096, 1000, 70000);
	j.base = j.alloc_offset + 1;
	j.buffered_fd = -1;
	struct tarn_fill *f = NULL;

	is_int(-EINVAL, tarn_fill_new(io, &j, &f),
		"%s: a fill without any descriptor is an error", name);
	tarn_io_free(io);
	drop_pool(&p);
}

/* Fills of one engine at once, each with its share of the depth. */
static void test_several(const char *name, const struct files *fs)
{
	enum { FILLS = 6 };
	struct tarn_io *io = engine(name, -1);
	struct tarn_fill *f[FILLS] = {0};
	struct pool p[FILLS];
	struct tarn_fill_job j[FILLS];
	int left = FILLS, good = 0;

	for (unsigned i = 0; i < FILLS; i++) {
		make_pool(&p[i], io, false);
		reset_pool(&p[i]);
		j[i] = job_for(fs, &p[i], 4096 * i, 12345 * i, SEGMENT * 2 + i);
		if (i % 2)
			j[i].io_mode = TARN_IO_BUFFERED;
		if (tarn_fill_new(io, &j[i], &f[i]) < 0)
			bail("%s", tarn_fail_message());
	}
	while (left > 0) {
		left = 0;
		for (unsigned i = 0; i < FILLS; i++) {
			tarn_fill_pump(f[i], TARN_IO_DEPTH / FILLS);
			left += !tarn_fill_finished(f[i]);
		}
		if (left > 0 && tarn_io_submit_and_wait(io, 1, 60000) < 0)
			bail("%s", tarn_fail_message());
	}
	for (unsigned i = 0; i < FILLS; i++) {
		good += tarn_fill_result(f[i]) == 0 &&
			first_wrong(&p[i], &j[i]) < 0;
		tarn_fill_free(f[i]);
		drop_pool(&p[i]);
	}
	is_int(FILLS, good, "%s: %d fills at once bring their bytes", name,
		FILLS);
	is_int(0, tarn_io_pending(io),
		"%s: no request is left under way after the fills", name);
	tarn_io_free(io);
}

int main(void)
{
	static const char *const names[] = {"threads", "io_uring"};
	enum { EACH = 15 };
	struct files fs;

	/* A third meets each begin, size and place, too. */
	by = getenv("TARN_TEST_SAMPLE") ? 3 : 1;
	make_file(&fs, "file", FILE_SIZE);
	if (fs.direct < 0)
		diag("no direct I/O in %s: all fills are buffered",
			test_tmpdir());
	for (unsigned i = 0; i < 2; i++) {
		struct tarn_io *io = engine(names[i], -1);

		if (!io) {
			skip(EACH, "%s: %s", names[i], tarn_fail_message());
			continue;
		}
		tarn_io_free(io);
		test_io_modes(names[i], &fs);
		test_tiny(names[i]);
		test_no_direct(names[i], &fs);
		test_several(names[i], &fs);
	}
	drop_files(&fs);
	return done(2 * EACH);
}
