/* SPDX-License-Identifier: MIT */
/*
 * Is this not what mmap does? A file's tensor, read by several processes, once
 * by mmap of the file, as safetensors does it, and once by tarn:
 *
 *	bench/mmap SOCKET FILE TENSOR PROCESSES
 *
 * cold: the page cache has nothing of the file, and all processes begin at
 * once; the time until the last of them has read every byte. warm: one more
 * process, a moment later. squeezed: one more when the page cache has dropped
 * the file, as it does when other files are read; here it is asked to
 * (POSIX_FADV_DONTNEED), once no process maps the file any more. Memory is what
 * lies in the page cache and in the daemon while the processes hold the file.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/report.h>
#include <tarn/tarn.h>

#include "bench/times.h"

#define GIB 1073741824.0
#define PROCESSES_MAX 256

static const char *socket_path, *path, *tensor;

static void die(const char *what)
{
	fprintf(stderr, "bench/mmap: %s: %s\n", what, tarn_error_message());
	exit(1);
}

/* ---- a process that reads -------------------------------------------- */

static uint64_t sum(const unsigned char *p, uint64_t size)
{
	uint64_t s[8] = {0}, v[8];

	for (uint64_t i = 0; i + 64 <= size; i += 64) {
		memcpy(v, p + i, 64);
		for (int k = 0; k < 8; k++)
			s[k] += v[k];
	}
	return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static const unsigned char *map_file(uint64_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		die(path);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die("mmap");
	close(fd);
	*ret_size = (uint64_t)st.st_size;
	return p;
}

static const unsigned char *get_tensor(uint64_t *ret_size)
{
	tarn_store *store;
	tarn_tensor *t;
	char address[4096];

	snprintf(address, sizeof(address), "%s:%s", path, tensor);
	if (tarn_store_open(socket_path, NULL, &store) < 0 ||
		tarn_store_get(store, address, NULL, &t) < 0)
		die(address);
	*ret_size = (uint64_t)tarn_layout_numel(tarn_tensor_layout(t));
	return tarn_tensor_data(t);
}

/* Reads all of it at the byte on begin, says so, and keeps it until the end of
 * hold. */
static void read_all(bool by_tarn, int begin, int done, int hold)
{
	const unsigned char *p;
	uint64_t size, total;
	char c = 0;

	if (read(begin, &c, 1) < 0)
		_exit(1);
	p = by_tarn ? get_tensor(&size) : map_file(&size);
	total = sum(p, size);
	/* The sum is used, so the compiler keeps the loop. */
	c = (char)total;
	if (write(done, &c, 1) != 1 || read(hold, &c, 1) < 0)
		_exit(1);
	_exit(0);
}

/* ---- rounds ---------------------------------------------------------- */

struct readers {
	pid_t pids[PROCESSES_MAX];
	int n;
	int begin, done, hold; /* our ends */
};

static void start(struct readers *r, bool by_tarn, int n)
{
	int begin[2], done[2], hold[2];

	if (pipe(begin) < 0 || pipe(done) < 0 || pipe(hold) < 0)
		die("pipe");
	r->n = n;
	for (int i = 0; i < n; i++) {
		r->pids[i] = fork();
		if (r->pids[i])
			continue;
		close(begin[1]);
		close(hold[1]);
		read_all(by_tarn, begin[0], done[1], hold[0]);
	}
	close(begin[0]);
	close(done[1]);
	close(hold[0]);
	r->begin = begin[1];
	r->done = done[0];
	r->hold = hold[1];
}

static double go(struct readers *r)
{
	double from = wall();
	char c;

	close(r->begin);
	for (int i = 0; i < r->n; i++)
		if (read(r->done, &c, 1) != 1)
			die("a reader died");
	return wall() - from;
}

static void end(struct readers *r)
{
	close(r->hold);
	close(r->done);
	for (int i = 0; i < r->n; i++)
		waitpid(r->pids[i], NULL, 0);
}

static double one_more(bool by_tarn)
{
	struct readers r;
	double seconds;

	start(&r, by_tarn, 1);
	seconds = go(&r);
	end(&r);
	return seconds;
}

/* ---- memory ---------------------------------------------------------- */

static void let_go(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		die(path);
	close(fd);
}

/* Of the file in the page cache. */
static double cached(void)
{
	uint64_t size, n = 0;
	const unsigned char *p = map_file(&size);
	size_t pages = (size_t)(size + 4095) / 4096;
	unsigned char *in = malloc(pages);

	if (!in || mincore((void *)p, (size_t)size, in) < 0)
		die("mincore");
	for (size_t i = 0; i < pages; i++)
		n += in[i] & 1;
	munmap((void *)p, (size_t)size);
	free(in);
	return (double)n * 4096;
}

/* Of the daemon by storages. */
static double stored(void)
{
	struct tarn_report *report;
	tarn_store *store;
	double bytes;

	if (tarn_store_open(socket_path, NULL, &store) < 0 ||
		tarn_store_report(store, &report) < 0)
		die("report");
	bytes = (double)report->daemon.used;
	tarn_report_free(report);
	tarn_store_unref(store);
	return bytes;
}

static void measure(bool by_tarn, int n)
{
	double cold, warm, squeezed, cache, store;
	struct readers r;

	let_go();
	start(&r, by_tarn, n);
	cold = go(&r);
	cache = cached();
	store = by_tarn ? stored() : 0;
	warm = one_more(by_tarn);
	end(&r);
	let_go();
	squeezed = one_more(by_tarn);
	printf("%-6s %9.3f %9.3f %9.3f %12.2f %9.2f\n",
		by_tarn ? "tarn" : "mmap", cold, warm, squeezed, cache / GIB,
		store / GIB);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int n = argc == 5 ? atoi(argv[4]) : 0;

	if (n < 1 || n > PROCESSES_MAX) {
		fprintf(stderr, "usage: bench/mmap SOCKET FILE TENSOR "
				"PROCESSES\n");
		return 2;
	}
	socket_path = argv[1];
	path = argv[2];
	tensor = argv[3];
	printf("       cold, %2d  one more  squeezed   page cache    daemon\n"
	       "              s         s         s          GiB       GiB\n",
		n);
	measure(false, n);
	measure(true, n);
	return 0;
}
