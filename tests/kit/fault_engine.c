/* SPDX-License-Identifier: MIT */
/*
 * The engine that goes wrong. Each request it lets through gets a twin that
 * the real engine sees; when the twin is done the original is told, shortened
 * where a fault says so. Slots of files and buffers are the same on both
 * sides, so nothing else needs translating.
 */
#include "tests/kit/fault_engine.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/io/io_engine.h"

enum { FAULTS_MAX = 16, RUBBISH = 0x5A };

struct twin {
	struct tarn_io_request req; /* first: what done() is given */
	struct faulty *faulty;
	struct tarn_io_request *original; /* NULL: free */
	bool shorten;
};

struct faulty {
	struct tarn_io io;
	struct tarn_io *real;
	struct fault faults[FAULTS_MAX];
	size_t n;
	unsigned reads, writes, fired;
	struct twin twins[TARN_IO_DEPTH];
	struct tarn_io_request *failed; /* res is set, done is not called */
};

static struct faulty *faulty_of(const struct tarn_io *io)
{
	return (struct faulty *)io; /* the head of it */
}

static const struct fault *find(
	const struct faulty *f, const struct tarn_io_request *req)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct fault *fault = &f->faults[i];
		unsigned now = f->reads + f->writes;

		if (fault->of == FAULT_READS)
			now = req->write ? 0 : f->reads;
		else if (fault->of == FAULT_WRITES)
			now = req->write ? f->writes : 0;
		if (now >= fault->at && now - fault->at < MAX(fault->times, 1))
			return fault;
	}
	return NULL;
}

/* About half, but never nothing. What may be whole blocks of a disk stays
 * whole blocks: no disk does otherwise. */
static uint32_t half(uint32_t size)
{
	uint32_t block = size % 4096 == 0 && size > 4096 ? 4096
			 : size % 512 == 0               ? 512
							 : 1;

	return size > block ? size / block / 2 * block : size;
}

static void twin_done(struct tarn_io_request *req)
{
	struct twin *t = (struct twin *)req;
	struct tarn_io_request *original = t->original;
	int32_t res = req->res;

	if (t->shorten && res > 0 && !req->write) {
		memset((char *)req->addr + half((uint32_t)res), RUBBISH,
			(uint32_t)res - half((uint32_t)res));
		res = (int32_t)half((uint32_t)res);
	}
	t->original = NULL;
	tarn_io_done(&t->faulty->io, original, res);
}

static void pass_on(struct faulty *f, struct tarn_io_request *req, bool shorten)
{
	struct twin *t = f->twins;

	while (t->original)
		t++;
	t->req = *req;
	t->req.done = twin_done;
	t->original = req;
	t->faulty = f;
	t->shorten = shorten;
	if (shorten && req->write)
		t->req.size = half(req->size);
	/* Never full: it has as many places as this one, and no one else. */
	if ((req->write ? tarn_io_write : tarn_io_read)(f->real, &t->req) != 0)
		abort();
}

static void faulty_queue(struct tarn_io *io, struct tarn_io_request *req)
{
	struct faulty *f = faulty_of(io);
	const struct fault *fault;

	*(req->write ? &f->writes : &f->reads) += 1;
	fault = find(f, req);
	f->fired += fault != NULL;
	if (!fault || fault->kind == FAULT_SHORT) {
		pass_on(f, req, fault != NULL);
		return;
	}
	req->res = fault->kind == FAULT_ERROR ? -fault->error : 0;
	req->next = f->failed;
	f->failed = req;
}

static int faulty_wait(struct tarn_io *io, unsigned n, int timeout_ms)
{
	struct faulty *f = faulty_of(io);
	struct tarn_io_request *req = f->failed, *next;
	int r;

	f->failed = NULL;
	for (; req; req = next) {
		next = req->next;
		n -= n > 0;
		tarn_io_done(io, req, req->res);
	}
	r = tarn_io_submit_and_wait(f->real, n, timeout_ms);
	return MIN(r, 0);
}

static void faulty_free(struct tarn_io *io)
{
	tarn_io_free(faulty_of(io)->real);
	free(faulty_of(io));
}

static int faulty_fd(struct tarn_io *io)
{
	return tarn_io_fd(faulty_of(io)->real);
}

static int faulty_set_file(struct tarn_io *io, unsigned slot, int fd)
{
	struct tarn_io *real = faulty_of(io)->real;

	return real->engine->set_file(real, slot, fd);
}

static void faulty_clear_file(struct tarn_io *io, unsigned slot)
{
	struct tarn_io *real = faulty_of(io)->real;

	real->engine->clear_file(real, slot);
}

static int faulty_set_buffer(
	struct tarn_io *io, unsigned slot, void *addr, size_t size)
{
	struct tarn_io *real = faulty_of(io)->real;

	return real->engine->set_buffer(real, slot, addr, size);
}

static int faulty_clear_buffer(struct tarn_io *io, unsigned slot)
{
	struct tarn_io *real = faulty_of(io)->real;

	return real->engine->clear_buffer(real, slot);
}

static const struct tarn_io_engine faulty_engine = {
	.name = "faulty",
	.free = faulty_free,
	.fd = faulty_fd,
	.set_file = faulty_set_file,
	.clear_file = faulty_clear_file,
	.set_buffer = faulty_set_buffer,
	.clear_buffer = faulty_clear_buffer,
	.queue = faulty_queue,
	.wait = faulty_wait,
};

struct tarn_io *fault_engine(
	const char *name, const struct fault *faults, size_t n)
{
	struct faulty *f = calloc(1, sizeof(*f));

	if (!f || n > FAULTS_MAX)
		abort();
	setenv("TARN_ENGINE", name, 1);
	if (tarn_io_new(-1, &f->real) < 0) {
		free(f);
		return NULL;
	}
	f->io.engine = &faulty_engine;
	for (f->n = 0; f->n < n; f->n++)
		f->faults[f->n] = faults[f->n];
	return &f->io;
}

unsigned fault_engine_fired(const struct tarn_io *io)
{
	return faulty_of(io)->fired;
}
