/* SPDX-License-Identifier: MIT */
/*
 * A server may die between any two instructions.
 *
 * So a child that writes a table is stepped through three transactions one
 * instruction at a time. Whenever the region's memory has changed, it is
 * copied as a crash would leave it, and a new writer begins on the copy: all
 * names must be those of before or of after the transaction, as the commit
 * number says, and the copy must be good to go on with.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "shm/table.h"
#include "tests/tap.h"

#define KEEP 63               /* one name below a split, with the long one */
#define WATCHED (96u << 10)   /* bytes of the records part that are used */
#define STEPS_MAX 20000000ull /* an instruction count that is never reached */

static struct table live, copy;
static uint64_t committed_before;

static int put(struct table_writer *w, const char *name, uint64_t id)
{
	struct tarn_descriptor d = {.base = id, .size = ~id};

	return table_put(w, name, strlen(name), &d, NULL);
}

static void drop(struct table_writer *w, const char *name)
{
	table_remove(w, name, strlen(name));
}

static void keep_name(char *name, size_t size, int i)
{
	snprintf(name, size, "keep/%d", i);
}

static void long_name(char name[901])
{
	memset(name, 'l', 900);
	name[900] = '\0';
}

/* 64 records in 64 buckets, and a large hole. */
static void prepare(void)
{
	struct table_writer *w = NULL;
	char name[901];

	if (table_writer_new(&live, &w) < 0)
		bail("%s", tarn_fail_message());
	table_begin(w);
	for (int i = 0; i < KEEP; i++) {
		keep_name(name, sizeof(name), i);
		put(w, name, (uint64_t)i);
	}
	long_name(name);
	put(w, name, 1);
	table_commit(w, NULL, NULL);
	table_begin(w);
	drop(w, name);
	put(w, "keep/last", KEEP);
	table_commit(w, NULL, NULL);
	committed_before = live.header->committed;
	table_writer_free(w);
}

/* What is stepped through. */
static void transactions(struct table_writer *w)
{
	table_begin(w);
	put(w, "new/a", 2000); /* splits a bucket, cuts the hole */
	put(w, "new/b", 2001);
	put(w, "keep/0", 1000);
	drop(w, "keep/1");
	table_commit(w, NULL, NULL);

	table_begin(w);
	put(w, "never/x", 1);
	put(w, "keep/5", 1);
	drop(w, "keep/6");
	table_abort(w);

	table_begin(w);
	put(w, "new/c", 3000);
	drop(w, "new/a");
	drop(w, "keep/0"); /* whose two versions are both in use */
	table_commit(w, NULL, NULL);
}

static int64_t look(const char *name)
{
	struct tarn_descriptor d;
	uint64_t version;
	int r = table_lookup(&copy, name, strlen(name), &d, &version);

	if (r < 0)
		return r;
	return d.size == ~d.base ? (int64_t)d.base : -EBADMSG;
}

static int wrong;

static void wanted(int64_t id, const char *name, uint64_t step)
{
	int64_t seen = look(name);

	if (seen != id && wrong++ < 10)
		diag("step %llu: %s: wanted %lld, seen %lld",
			(unsigned long long)step, name, (long long)id,
			(long long)seen);
}

static int count_one(void *arg, const char *name, size_t name_size,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	++*(int *)arg;
	return 0;
}

static void verify(uint64_t step)
{
	uint64_t c = copy.header->committed - committed_before;
	char name[32];
	int n = 0;

	for (int i = 2; i < KEEP; i++) {
		keep_name(name, sizeof(name), i);
		wanted(i, name, step);
	}
	wanted(KEEP, "keep/last", step);
	wanted(c == 0 ? 0 : c == 1 ? 1000 : -ENOENT, "keep/0", step);
	wanted(c >= 1 ? -ENOENT : 1, "keep/1", step);
	wanted(c == 1 ? 2000 : -ENOENT, "new/a", step);
	wanted(c >= 1 ? 2001 : -ENOENT, "new/b", step);
	wanted(c >= 2 ? 3000 : -ENOENT, "new/c", step);
	wanted(-ENOENT, "never/x", step);
	table_list(&copy, "", 0, count_one, &n);
	if (n != KEEP + 1 + (c == 1))
		wrong++;
}

/* As much of the region as the transactions touch. */
static bool copy_changed(void)
{
	bool changed = false;
	unsigned char *parts[3][2] = {
		{(void *)live.header, (void *)copy.header},
		{(void *)live.buckets, (void *)copy.buckets},
		{live.map + live.records_offset,
			copy.map + copy.records_offset},
	};
	static unsigned char seen[3][WATCHED];
	size_t sizes[3] = {4096, 4096, WATCHED};

	for (int i = 0; i < 3; i++)
		if (memcmp(seen[i], parts[i][0], sizes[i]) != 0) {
			memcpy(seen[i], parts[i][0], sizes[i]);
			changed = true;
		}
	/* Always whole: the last recovery has changed the copy. */
	for (int i = 0; changed && i < 3; i++)
		memcpy(parts[i][1], seen[i], sizes[i]);
	return changed;
}

static void recover(uint64_t step)
{
	struct table_writer *w = NULL;
	uint64_t names;

	/* Readers do not wait for the new server where nothing is odd. */
	if (!(copy.header->restructuring & 1))
		verify(step);
	if (table_writer_new(&copy, &w) < 0) {
		diag("step %llu: %s", (unsigned long long)step,
			tarn_fail_message());
		wrong++;
		return;
	}
	verify(step);
	names = copy.header->n_names;
	table_begin(w);
	put(w, "after", 1);
	put(w, "after/long/name/that/needs/another/size/of/record/than/that",
		2);
	table_commit(w, NULL, NULL);
	wanted(1, "after", step);
	table_begin(w);
	drop(w, "after");
	table_commit(w, NULL, NULL);
	wanted(-ENOENT, "after", step);
	if (copy.header->n_names != names + 1 || copy.header->restructuring & 1)
		wrong++;
	table_writer_free(w);
}

static void writer_child(void)
{
	struct table_writer *w = NULL;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(3);
	if (table_writer_new(&live, &w) < 0)
		_exit(4);
	raise(SIGSTOP);
	transactions(w);
	_exit(0);
}

int main(void)
{
	int fds[2] = {memfd_create("live", MFD_CLOEXEC),
		memfd_create("copy", MFD_CLOEXEC)};
	uint64_t step = 0, states = 0;
	int status = 0;
	pid_t pid;

	if (fds[0] < 0 || fds[1] < 0 ||
		table_create(fds[0], 7, 4711, 1, 2, &live) < 0 ||
		table_create(fds[1], 7, 4711, 1, 2, &copy) < 0)
		bail("%s", tarn_fail_message());
	prepare();
	pid = fork();
	if (pid == 0)
		writer_child();
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		skip_all("a process cannot be traced here");
	if (!WIFSTOPPED(status))
		bail("the writer did not stop: status %d", status);
	while (step < STEPS_MAX) {
		if (copy_changed()) {
			states++;
			recover(step);
		}
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
			skip_all("a process cannot be stepped here: %m");
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			break;
		step++;
	}
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		"a writer was stepped through %llu instructions",
		(unsigned long long)step);
	ok(states > 50, "which left memory in %llu states",
		(unsigned long long)states);
	is_int(0, wrong, "each of which the next writer puts right");
	is_int((int64_t)committed_before + 2, (int64_t)live.header->committed,
		"the last of them with both transactions");
	table_unmap(&live);
	table_unmap(&copy);
	close(fds[0]);
	close(fds[1]);
	return done();
}
