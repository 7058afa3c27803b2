/* SPDX-License-Identifier: MIT */
/*
 * A server may die between any two instructions.
 *
 * So a child that writes a table is stepped through three transactions one
 * instruction at a time. Whenever the region's memory has changed, it is
 * copied as a crash would leave it, and a new writer begins on the copy: all
 * names must be those of before or of after the transaction, as the commit
 * number says, and so must the completions, table_check finds nothing, and the
 * copy must be good to go on with. Of some copies that need it, the new writer
 * is stepped through in the same way, and another one begins on what it has
 * left.
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
#include "shm/record.h"
#include "shm/table_check.h"
#include "shm/table_writer.h"
#include "tests/kit/tap.h"

#define KEEP 63               /* one name below a split, with the long one */
#define WATCHED (96u << 10)   /* bytes of the records part that are used */
#define STEPS_MAX 20000000ull /* an instruction count that is never reached */
#define TWICE_EVERY 12        /* of the states that need more than a pass */

static struct table live, copy, again;
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

/* Only what its serial says. */
static uint32_t complete(struct table_writer *w, uint32_t serial)
{
	struct completed request = {
		.client = 5, .serial = serial, .size = ~(uint64_t)serial};
	uint32_t slot;

	if (table_complete(w, &request, &slot) < 0)
		bail("%s", tarn_fail_message());
	return slot;
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
	complete(w, 9);
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
	uint32_t slot;

	table_begin(w);
	put(w, "new/a", 2000); /* splits a bucket, cuts the hole */
	put(w, "new/b", 2001);
	put(w, "keep/0", 1000);
	drop(w, "keep/1");
	slot = complete(w, 1);
	table_commit(w, NULL, NULL);

	table_begin(w);
	put(w, "never/x", 1);
	put(w, "keep/5", 1);
	drop(w, "keep/6");
	complete(w, 2);
	table_abort(w);

	table_begin(w);
	put(w, "new/c", 3000);
	drop(w, "new/a");
	drop(w, "keep/0"); /* whose two versions are both in use */
	complete(w, 3);    /* in the slot of the second one */
	table_commit(w, NULL, NULL);
	table_completion_free(w, slot);
}

static int64_t look(const struct table *table, const char *name)
{
	struct tarn_descriptor d;
	uint64_t version;
	int r = table_lookup(table, name, strlen(name), &d, &version);

	if (r < 0)
		return r;
	return d.size == ~d.base ? (int64_t)d.base : -EBADMSG;
}

static bool is_completed(const struct table *table, uint32_t serial)
{
	uint64_t committed = table->header->committed;

	for (uint32_t i = 0; i < table->header->n_completions; i++) {
		const struct table_completion *c = &table->completions[i];

		if (c->commit && c->commit <= committed &&
			c->request.serial == serial)
			return c->request.client == 5 &&
			       c->request.size == ~(uint64_t)serial;
	}
	return false;
}

static int wrong;

static void wanted_completion(
	const struct table *table, bool is, uint32_t serial, uint64_t step)
{
	if (is_completed(table, serial) != is && wrong++ < 10)
		diag("step %llu: the completion of request %u is %sthere",
			(unsigned long long)step, serial, is ? "not " : "");
}

static void wanted(
	const struct table *table, int64_t id, const char *name, uint64_t step)
{
	int64_t seen = look(table, name);

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

static void verify(const struct table *t, uint64_t step)
{
	uint64_t c = t->header->committed - committed_before;
	char name[32];
	int n = 0;

	for (int i = 2; i < KEEP; i++) {
		keep_name(name, sizeof(name), i);
		wanted(t, i, name, step);
	}
	wanted(t, KEEP, "keep/last", step);
	wanted(t, c == 0 ? 0 : c == 1 ? 1000 : -ENOENT, "keep/0", step);
	wanted(t, c >= 1 ? -ENOENT : 1, "keep/1", step);
	wanted(t, c == 1 ? 2000 : -ENOENT, "new/a", step);
	wanted(t, c >= 1 ? 2001 : -ENOENT, "new/b", step);
	wanted(t, c >= 2 ? 3000 : -ENOENT, "new/c", step);
	wanted(t, -ENOENT, "never/x", step);
	wanted_completion(t, true, 9, step);
	if (c < 2) /* else it may be freed */
		wanted_completion(t, c == 1, 1, step);
	wanted_completion(t, false, 2, step);
	wanted_completion(t, c == 2, 3, step);
	table_list(t, "", 0, count_one, &n);
	if (n != KEEP + 1 + (c == 1))
		wrong++;
}

/* No name is left that does not stand, nor is anything else amiss. */
static void check_whole(const struct table *table, uint64_t step)
{
	struct table_tally tally;
	struct faults faults = {0};

	if (table_check(table, NULL, &faults, &tally) < 0)
		bail("%s", tarn_fail_message());
	if (faults.n && wrong++ < 10)
		diag("step %llu: %s", (unsigned long long)step,
			faults.lines[0]);
	faults_clear(&faults);
}

/* ---- states ------------------------------------------------------------ */

#define PARTS 4

/* What a child has written so far, of what the transactions touch. */
struct image {
	unsigned char bytes[PARTS][WATCHED];
};

static const size_t part_sizes[PARTS] = {4096, 4096, 4096, WATCHED};

static unsigned char *part_of(const struct table *table, int i)
{
	return i == 0   ? (unsigned char *)table->header
	       : i == 1 ? (unsigned char *)table->buckets
	       : i == 2 ? (unsigned char *)table->completions
			: table->map + table->records_offset;
}

static bool image_changed(struct image *image, const struct table *from)
{
	bool changed = false;

	for (int i = 0; i < PARTS; i++)
		if (memcmp(image->bytes[i], part_of(from, i), part_sizes[i]) !=
			0) {
			memcpy(image->bytes[i], part_of(from, i),
				part_sizes[i]);
			changed = true;
		}
	return changed;
}

static void image_put(const struct image *image, const struct table *to)
{
	for (int i = 0; i < PARTS; i++)
		memcpy(part_of(to, i), image->bytes[i], part_sizes[i]);
}

/* Must a new writer do more than look? */
static bool needs_repair(const struct table *table)
{
	uint64_t end = table->header->records_used, commit;
	const struct name_record *record;

	for (uint64_t at = 0; at < end; at += record->size) {
		int i;

		record = record_at(table, table->records_offset + at);
		i = version_pick(record, table->header->committed, &commit);
		if (record->name_size &&
			(i < 0 || record->versions[i].flags & NAME_REMOVED))
			return true;
	}
	return table->header->restructuring & 1;
}

static void recover(struct table *table, uint64_t step)
{
	struct table_writer *w = NULL;
	uint64_t names;

	/* Readers do not wait for the new server where nothing is odd. */
	if (!(table->header->restructuring & 1))
		verify(table, step);
	if (table_writer_new(table, &w) < 0) {
		diag("step %llu: %s", (unsigned long long)step,
			tarn_fail_message());
		wrong++;
		return;
	}
	verify(table, step);
	check_whole(table, step);
	names = table->header->n_names;
	table_begin(w);
	put(w, "after", 1);
	put(w, "after/long/name/that/needs/another/size/of/record/than/that",
		2);
	table_commit(w, NULL, NULL);
	wanted(table, 1, "after", step);
	table_begin(w);
	drop(w, "after");
	table_commit(w, NULL, NULL);
	wanted(table, -ENOENT, "after", step);
	check_whole(table, step);
	if (table->header->n_names != names + 1 ||
		table->header->restructuring & 1)
		wrong++;
	table_writer_free(w);
}

/* ---- stepping ---------------------------------------------------------- */

/* A child that runs fn after it has stopped itself. */
static pid_t start_child(void (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(3);
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		skip_all("a process cannot be traced here");
	if (!WIFSTOPPED(status))
		bail("the writer did not stop: status %d", status);
	return pid;
}

/* Steps it to its end; state is called for each that its memory is in. */
static uint64_t step_through(pid_t pid, struct image *image,
	const struct table *table, void (*state)(uint64_t step))
{
	uint64_t step = 0;
	int status = 0;

	while (step < STEPS_MAX) {
		if (image_changed(image, table))
			state(step);
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
			skip_all("a process cannot be stepped here: %m");
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			break;
		step++;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		bail("the writer ended with status %d", status);
	return step;
}

static struct image first, second;
static uint64_t states, repairs, twice;

static void writer_child(void)
{
	struct table_writer *w = NULL;

	if (table_writer_new(&live, &w) < 0)
		_exit(4);
	raise(SIGSTOP);
	transactions(w);
}

static void recovery_child(void)
{
	struct table_writer *w = NULL;

	raise(SIGSTOP);
	if (table_writer_new(&copy, &w) < 0)
		_exit(4);
}

/* The new writer died, too. */
static void recovery_state(uint64_t step)
{
	twice++;
	image_put(&second, &again);
	recover(&again, step);
}

/* The writer died. */
static void writer_state(uint64_t step)
{
	states++;
	/* Always whole: the last recovery has changed the copy. */
	image_put(&first, &copy);
	if (needs_repair(&copy) && repairs++ % TWICE_EVERY == 0) {
		step_through(start_child(recovery_child), &second, &copy,
			recovery_state);
		image_put(&first, &copy);
	}
	recover(&copy, step);
}

int main(void)
{
	struct table *tables[3] = {&live, &copy, &again};
	uint64_t steps;

	for (int i = 0; i < 3; i++) {
		int fd = memfd_create("table_crash", MFD_CLOEXEC);

		if (fd < 0 || table_create(fd, 7, 4711, 1, 2, tables[i]) < 0)
			bail("%s", tarn_fail_message());
		close(fd);
	}
	prepare();
	steps = step_through(
		start_child(writer_child), &first, &live, writer_state);
	diag("%llu instructions, %llu states; %llu of them needed repair, "
	     "which left %llu others",
		(unsigned long long)steps, (unsigned long long)states,
		(unsigned long long)repairs, (unsigned long long)twice);
	ok(steps > 1000, "a writer was stepped through all its instructions");
	ok(states > 50, "the steps left the memory in many states");
	ok(repairs > 20 && twice > repairs,
		"some states needed a repair, which left more states");
	is_int(0, wrong,
		"each interrupted repair is completed by the next writer");
	is_int((int64_t)committed_before + 2, (int64_t)live.header->committed,
		"the final table has both transactions");
	for (int i = 0; i < 3; i++)
		table_unmap(tables[i]);
	return done(5);
}
