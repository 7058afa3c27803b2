/* SPDX-License-Identifier: MIT */
/*
 * Readers look up and list while a writer adds, splits, replaces, removes and
 * uses memory again. No reader may ever see a descriptor that is not of that
 * name and version, miss a name that is always there, see half a transaction,
 * or find one that never was.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

#define READERS 3
#define STAY 40
#define COME 200
#define SECONDS 2.0
#define PATIENCE 60.0

/* What a reader counts; it alone writes its own. */
struct counts {
	uint64_t looks, lists, found, busy;
	uint64_t torn, missed, ghosts, halves, backwards, twice;
};

struct shared {
	_Atomic int stop;
	struct counts counts[READERS];
};

static struct shared *shared;

/* A descriptor that says whose it is in every word. */
static struct tarn_descriptor made(const char *name, uint64_t version)
{
	uint64_t id = name_hash(name, strlen(name), 99) + version;
	struct tarn_descriptor d = {.base = id, .size = version};

	for (int i = 0; i < TARN_NDIM_MAX; i++) {
		d.shape[i] = (int64_t)(id ^ (uint64_t)i);
		d.stride[i] = (int64_t)(id * 31 + (uint64_t)i);
	}
	return d;
}

/* base says the name, size the number that the writer gave it. */
static bool right(const char *name, const struct tarn_descriptor *d)
{
	struct tarn_descriptor wanted = made(name, d->size);

	return memcmp(&wanted, d, sizeof(wanted)) == 0;
}

/* The writer's number under a name, or an error. */
static int64_t look(const struct table *t, const char *name, struct counts *c)
{
	struct tarn_descriptor d;
	uint64_t version;
	int r;

	c->looks++;
	while ((r = table_lookup(t, name, strlen(name), &d, &version)) ==
		-EAGAIN)
		c->busy++;
	if (r < 0)
		return r;
	c->found++;
	c->torn += !right(name, &d);
	return (int64_t)d.size;
}

struct seen {
	struct counts *counts;
	int stay[STAY];
};

static int list_one(void *arg, const char *name, size_t name_size,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	struct seen *seen = arg;

	seen->counts->torn += !right(name, descriptor);
	if (strncmp(name, "stay/", 5) == 0)
		seen->stay[atoi(name + 5) % STAY]++;
	return 0;
}

static void list_once(const struct table *t, struct counts *c)
{
	struct seen seen = {.counts = c};
	int r = table_list(t, "", 0, list_one, &seen);

	c->lists++;
	if (r == -EAGAIN) {
		c->busy++;
		return;
	}
	for (int i = 0; i < STAY; i++) {
		c->missed += seen.stay[i] == 0;
		c->twice += seen.stay[i] > 1;
	}
}

static void reader(int fd, int number)
{
	struct counts *c = &shared->counts[number];
	unsigned int seed = (unsigned int)number + 1;
	int64_t last = 0;
	struct table t;
	char name[64];

	if (table_map(fd, false, &t) < 0)
		_exit(2);
	while (!atomic_load(&shared->stop)) {
		int64_t first, second;

		snprintf(name, sizeof(name), "stay/%d", rand_r(&seed) % STAY);
		c->missed += look(&t, name, c) < 0;
		snprintf(name, sizeof(name), "come/%d", rand_r(&seed) % COME);
		look(&t, name, c);
		c->ghosts += look(&t, "never", c) != -ENOENT;
		/* One transaction each: the second cannot be the older one. */
		first = look(&t, "pair/a", c);
		second = look(&t, "pair/b", c);
		c->halves += second < first;
		c->backwards += first < last;
		last = first;
		if (rand_r(&seed) % 512 == 0)
			list_once(&t, c);
	}
	table_unmap(&t);
	_exit(0);
}

static void put(struct table_writer *w, const char *name, uint64_t number)
{
	struct tarn_descriptor d = made(name, number);

	if (table_put(w, name, strlen(name), &d, NULL) < 0)
		bail("table_put %s: %s", name, tarn_fail_message());
}

static void write_once(struct table_writer *w, uint64_t n, unsigned int *seed)
{
	char name[900];
	int len;

	table_begin(w);
	put(w, "pair/a", n);
	snprintf(name, sizeof(name), "stay/%d", rand_r(seed) % STAY);
	put(w, name, n);
	/* Names of all lengths, so that holes are cut. */
	for (int i = 0; i < 4; i++) {
		len = snprintf(
			name, sizeof(name), "come/%d", rand_r(seed) % COME);
		if (rand_r(seed) % 2) {
			memset(name + len, 'x', sizeof(name) - (size_t)len);
			name[len + rand_r(seed) % 800] = '\0';
		}
		if (table_remove(w, name, strlen(name)) < 0)
			put(w, name, n);
	}
	snprintf(name, sizeof(name), "grow/%llu", (unsigned long long)n);
	if (n < 20000)
		put(w, name, n);
	put(w, "pair/b", n);
	if (n % 16 == 15)
		table_abort(w);
	else
		table_commit(w, NULL, NULL);
}

/* The names that are always there. */
static void write_first(struct table_writer *w)
{
	char name[32];

	table_begin(w);
	for (int i = 0; i < STAY; i++) {
		snprintf(name, sizeof(name), "stay/%d", i);
		put(w, name, 0);
	}
	put(w, "pair/a", 0);
	put(w, "pair/b", 0);
	table_commit(w, NULL, NULL);
}

/* Whether writer and readers did enough to be judged; they still count. */
static bool enough(uint64_t n)
{
	uint64_t found = 0, lists = 0;

	for (int i = 0; i < READERS; i++) {
		found += shared->counts[i].found;
		lists += shared->counts[i].lists;
	}
	return n > 100 && found > 1000 && lists > 0;
}

/* Beside readers, whose numbers are returned: how many transactions. */
static uint64_t write_beside(struct table_writer *w, int fd, pid_t *pids)
{
	unsigned int seed = 4711;
	uint64_t n = 1;
	double begun;

	for (int i = 0; i < READERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			reader(fd, i);
	}
	begun = seconds();
	while (seconds() < begun + SECONDS ||
		(!enough(n) && seconds() < begun + PATIENCE))
		write_once(w, n++, &seed);
	atomic_store(&shared->stop, 1);
	return n;
}

/* What all of them have counted, when they have ended. */
static struct counts sum_up(const pid_t *pids)
{
	struct counts all = {.looks = 0};
	uint64_t *to = (uint64_t *)&all;

	for (int i = 0; i < READERS; i++) {
		const uint64_t *from = (const uint64_t *)&shared->counts[i];
		int status;

		waitpid(pids[i], &status, 0);
		is_int(0, status, "reader %d ends without error", i);
		for (size_t k = 0; k < sizeof(all) / sizeof(*to); k++)
			to[k] += from[k];
	}
	return all;
}

static void judge(const struct counts *all, uint64_t n, uint32_t n_buckets)
{
	diag("%llu transactions, %llu look-ups, %llu found, %llu lists, %llu "
	     "times busy, %u buckets",
		(unsigned long long)n, (unsigned long long)all->looks,
		(unsigned long long)all->found, (unsigned long long)all->lists,
		(unsigned long long)all->busy, n_buckets);
	ok(n > 100 && all->found > 1000 && all->lists > 0,
		"readers and writer did enough work");
	is_int(0, (int64_t)all->torn,
		"no reader saw a descriptor of another name or version");
	is_int(0, (int64_t)all->missed,
		"no reader missed a name that always exists");
	is_int(0, (int64_t)all->twice, "no listing had a name twice");
	is_int(0, (int64_t)all->ghosts,
		"no reader found a name that never existed");
	is_int(0, (int64_t)all->halves, "no reader saw half a transaction");
	is_int(0, (int64_t)all->backwards,
		"no reader saw an older commit after a newer one");
}

int main(void)
{
	int fd = memfd_create("tarn-test", MFD_CLOEXEC);
	struct table_writer *w = NULL;
	pid_t pids[READERS];
	struct counts all;
	struct table t;
	uint64_t n;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fd < 0 || shared == MAP_FAILED ||
		table_create(fd, 7, 4711, 1, 2, &t) < 0 ||
		table_writer_new(&t, &w) < 0)
		bail("%s", tarn_fail_message());
	write_first(w);
	n = write_beside(w, fd, pids);
	all = sum_up(pids);
	judge(&all, n, t.header->n_buckets);
	table_writer_free(w);
	table_unmap(&t);
	munmap(shared, sizeof(*shared));
	close(fd);
	return done(10);
}
