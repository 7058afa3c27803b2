/* SPDX-License-Identifier: MIT */
/*
 * Waiting for the bytes of a file that others load. First against a daemon
 * inside the test, so that bytes arrive when the test wants them; then against
 * the real one, which must wake the waiting clients.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fail.h"
#include "lib/store/open_files.h"
#include "lib/store/store.h"
#include "shm/table_writer.h"
#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/fake_daemon.h"
#include "tests/kit/tap.h"

#define LONG_MS 60000
#define SIZE 1000u

static char path[300];

/* One tensor of size bytes, that have no blocks. */
static tarn_file *make_file(const char *name, const char *tensor, uint64_t size)
{
	unsigned long long n_bytes = size;
	char text[200];
	tarn_file *file;
	uint64_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	n = (uint64_t)snprintf(text, sizeof(text),
		"{\"%s\":{\"dtype\":\"U8\",\"shape\":[%llu],"
		"\"data_offsets\":[0,%llu]}}",
		tensor, n_bytes, n_bytes);
	f = fopen(path, "w");
	if (!f)
		bail("%s: %s", path, strerror(errno));
	fwrite(&n, 8, 1, f);
	fwrite(text, 1, n, f);
	fclose(f);
	if (truncate(path, (off_t)(8 + n + size)) < 0 ||
		tarn_file_open(path, &file) < 0)
		bail("%s: %s", path, tarn_error_message());
	return file;
}

/* ---- the daemon that the test plays ---------------------------------- */

static struct fake fake;
static struct table_writer *writer;
static struct file_identity identity;
static uint64_t data_offset;

/* A load of the file begins. */
static uint32_t begin_load(uint64_t data_size)
{
	struct table_storage entry = {.pool = 5,
		.size = data_size,
		.file = identity,
		.file_offset = data_offset};
	uint64_t generation;
	uint32_t index;

	if (table_storage_add(
		    writer, &entry, STORAGE_FILLING, &index, &generation) < 0)
		bail("%s", tarn_fail_message());
	table_wake(writer);
	return index;
}

struct step {
	pthread_t thread;
	uint32_t index;
	uint64_t landed;
	enum storage_state state; /* FREE: it is dropped */
	bool again;               /* and another load of it begins */
};

static void *take_step(void *arg)
{
	struct step *step = arg;
	uint32_t index = step->index;

	/* After the call has begun to wait: a step before it ends no wait. */
	kit_channel_until_asleep(1);
	fake.table.storages[index].landed = step->landed;
	/* First: at no moment is there no load at all. */
	if (step->again)
		step->index = begin_load(SIZE);
	if (step->state == STORAGE_FREE)
		table_storage_drop(writer, index);
	else
		table_storage_set(writer, index, step->state);
	table_wake(writer);
	return NULL;
}

static void begin_step(struct step *step)
{
	pthread_create(&step->thread, NULL, take_step, step);
}

static void end_step(struct step *step)
{
	pthread_join(step->thread, NULL);
}

static void test_progress(tarn_store *store, tarn_file *file)
{
	struct step step = {.state = STORAGE_FILLING};
	uint64_t landed = 77;

	is_int(-ENOENT, tarn_store_wait_file(store, file, 0, -1, &landed),
		"a wait for a file that is not being loaded is refused");
	has_str("nobody is loading it", tarn_error_message(),
		"the error contains 'nobody is loading it'");
	step.index = begin_load(SIZE);
	is_int(-ETIMEDOUT, tarn_store_wait_file(store, file, 1, 100, &landed),
		"a wait for a file of which no byte has arrived times out");
	has_str("0 of 1000 bytes have arrived, not 1 within 100 ms",
		tarn_error_message(),
		"the error says how many bytes have arrived");
	is_int(77, (int64_t)landed, "a wait that times out returns no count");
	step.landed = 400;
	begin_step(&step);
	is_int(0, tarn_store_wait_file(store, file, 300, LONG_MS, &landed),
		"a wait for a part of a file ends");
	is_int(400, (int64_t)landed,
		"the wait returns how many bytes have arrived");
	end_step(&step);
	step.landed = SIZE;
	begin_step(&step);
	is_int(-ETIMEDOUT, tarn_store_wait_file(store, file, 0, 400, &landed),
		"a wait continues while the bytes may not be read yet");
	end_step(&step);
	step.state = STORAGE_LIVE;
	begin_step(&step);
	is_int(0, tarn_store_wait_file(store, file, 5000, LONG_MS, &landed),
		"a wait for more bytes than the file has ends");
	is_int(SIZE, (int64_t)landed, "the wait returns all bytes of the file");
	end_step(&step);
	is_int(0, tarn_store_wait_file(store, file, 0, 0, NULL),
		"a wait for a loaded file ends at once");
	table_storage_drop(writer, step.index);
}

static void test_ends(tarn_store *store, tarn_file *file)
{
	struct step step = {.state = STORAGE_FREE, .index = begin_load(SIZE)};

	begin_step(&step);
	is_int(-ECANCELED, tarn_store_wait_file(store, file, 0, LONG_MS, NULL),
		"a wait for a load that fails is ECANCELED");
	end_step(&step);
	step.index = begin_load(SIZE);
	step.again = true;
	begin_step(&step);
	is_int(-ETIMEDOUT, tarn_store_wait_file(store, file, 0, 400, NULL),
		"a wait continues with a load that follows the failed one");
	end_step(&step);
	fake.table.storages[step.index].flags = STORAGE_QUARANTINE;
	is_int(-ENOENT, tarn_store_wait_file(store, file, 0, 100, NULL),
		"a load that a dead loader left is not waited for");
	table_storage_drop(writer, step.index);
}

/* ---- an index -------------------------------------------------------- */

/* Nothing but a hole; that is verified for a minute. */
#define SHARD_SIZE (60ull << 30)

static void take_identity(tarn_file *file)
{
	uint64_t size;

	tarn_file_data_range(file, &data_offset, &size);
	if (identity_of(tarn_file_fd(file), &identity) < 0)
		bail("%s", tarn_error_message());
}

struct late {
	int after_ms;
	uint32_t index;
};

static void *begin_late(void *arg)
{
	struct late *late = arg;

	usleep((useconds_t)late->after_ms * 1000);
	late->index = begin_load(SIZE);
	table_storage_set(writer, late->index, STORAGE_LIVE);
	table_wake(writer);
	return NULL;
}

/* An index of two shards, the first of them loaded. */
struct pair {
	tarn_file *shards[2], *file;
	char path[300];
	uint32_t index;
};

static void make_pair(struct pair *p, uint64_t first_size)
{
	FILE *f;

	p->shards[0] = make_file("1.st", "b", first_size);
	p->shards[1] = make_file("2.st", "c", SIZE);
	snprintf(p->path, sizeof(p->path), "%s/index.json", test_tmpdir());
	f = fopen(p->path, "w");
	if (!f ||
		fputs("{\"weight_map\":{\"b\":\"1.st\",\"c\":\"2.st\"}}", f) <
			0 ||
		fclose(f) != 0 || tarn_file_open(p->path, &p->file) < 0)
		bail("%s: %s", p->path, tarn_error_message());
	take_identity(p->shards[0]);
	p->index = begin_load(first_size);
	table_storage_set(writer, p->index, STORAGE_LIVE);
	take_identity(p->shards[1]);
}

static void drop_pair(struct pair *p)
{
	table_storage_drop(writer, p->index);
	for (int i = 0; i < 2; i++) {
		unlink(tarn_file_path(p->shards[i]));
		tarn_file_unref(p->shards[i]);
	}
	unlink(p->path);
	tarn_file_unref(p->file);
}

/* A first shard of GiB that is verified before the next one's load begins: who
 * waits for both must not take the pause for the end. */
static void test_pause(tarn_store *store)
{
	struct late late = {.after_ms = 1500};
	uint64_t landed = 0;
	pthread_t thread;
	struct pair p;

	make_pair(&p, SHARD_SIZE);
	pthread_create(&thread, NULL, begin_late, &late);
	is_int(0, tarn_store_wait_file(store, p.file, 0, LONG_MS, &landed),
		"a wait for shards with a pause between them ends");
	is_int((int64_t)SHARD_SIZE + SIZE, (int64_t)landed,
		"the wait returns the bytes of all shards");
	pthread_join(thread, NULL);
	table_storage_drop(writer, late.index);
	drop_pair(&p);
}

/* The next shard's load waits for memory, however long: it has no storage, but
 * the daemon knows of it. Of others it may know what it likes. */
static void test_coming(tarn_store *store)
{
	struct tarn_report_load *load = &fake.reported;
	struct late late = {.after_ms = 2500};
	uint64_t landed = 0;
	pthread_t thread;
	struct pair p;

	make_pair(&p, SIZE);
	*load = (struct tarn_report_load) {
		.label = "elsewhere/2.st", .total = SIZE};
	pthread_create(&thread, NULL, begin_late, &late);
	is_int(0, tarn_store_wait_file(store, p.file, 0, LONG_MS, &landed),
		"a wait for a shard that waits for memory ends: %s",
		tarn_error_message());
	is_int(2 * SIZE, (int64_t)landed,
		"the wait returns the bytes of both shards");
	pthread_join(thread, NULL);
	table_storage_drop(writer, late.index);
	load->total = SIZE + 1;
	is_int(-ENOENT, tarn_store_wait_file(store, p.file, 0, LONG_MS, NULL),
		"a load of another size is not waited for");
	has_str("nobody is loading it", tarn_error_message(),
		"the error says that no load is under way");
	load->total = SIZE;
	load->state = TARN_REPORT_LOAD_STOPPING;
	is_int(-ENOENT, tarn_store_wait_file(store, p.file, 0, LONG_MS, NULL),
		"a wait for a load that stops is refused");
	drop_pair(&p);
}

/* So is the load of a single file, or of the first shard. */
static void test_coming_first(tarn_store *store)
{
	tarn_file *file = make_file("f.safetensors", "b", SIZE);
	struct late late = {.after_ms = 1500};
	uint64_t landed = 0;
	pthread_t thread;

	take_identity(file);
	fake.reported = (struct tarn_report_load) {.label = "f.safetensors",
		.total = SIZE,
		.state = TARN_REPORT_LOAD_WAITING};
	is_int(-ETIMEDOUT, tarn_store_wait_file(store, file, 0, 0, NULL),
		"a wait without time for a load that lacks memory times out");
	has_str("waits for memory", tarn_error_message(),
		"the error contains 'waits for memory'");
	is_int(-ETIMEDOUT, tarn_store_wait_file(store, file, 0, 50, NULL),
		"a short wait for a load that lacks memory times out");
	has_str("within 50 ms", tarn_error_message(),
		"the error contains 'within 50 ms'");
	pthread_create(&thread, NULL, begin_late, &late);
	is_int(0, tarn_store_wait_file(store, file, 0, LONG_MS, &landed),
		"a longer wait for a load that lacks memory ends");
	is_int(SIZE, (int64_t)landed, "the longer wait returns all bytes");
	pthread_join(thread, NULL);
	table_storage_drop(writer, late.index);
	fake.reported.state = TARN_REPORT_LOAD_READING;
	is_int(-ENOENT, tarn_store_wait_file(store, file, 0, LONG_MS, NULL),
		"a load of another file is not waited for");
	unlink(tarn_file_path(file));
	tarn_file_unref(file);
}

static tarn_store *open_played(enum fake_mode mode)
{
	int fd = fake_start(&fake, mode);
	tarn_store *store;

	if (store_open_fd(fd, "/the/socket", "", LONG_MS, &store) < 0 ||
		table_writer_new(&fake.table, &writer) < 0)
		bail("%s", tarn_error_message());
	return store;
}

static void close_played(tarn_store *store)
{
	tarn_store_unref(store);
	table_writer_free(writer);
	fake_stop(&fake);
}

static void test_played(void)
{
	tarn_file *file = make_file("f.safetensors", "b", SIZE);
	tarn_store *store = open_played(FAKE_GOOD);
	uint64_t size;

	take_identity(file);
	test_progress(store, file);
	test_ends(store, file);
	test_pause(store);
	close_played(store);
	store = open_played(FAKE_REPORTS);
	test_coming(store);
	test_coming_first(store);
	close_played(store);
	unlink(tarn_file_path(file));
	tarn_file_unref(file);
	file = make_file("e.safetensors", "b", 0);
	is_int(0, tarn_store_wait_file(store, file, 0, 0, &size),
		"a wait for an empty file ends at once");
	tarn_file_unref(file);
	unlink(path);
}

/* ---- the real daemon ------------------------------------------------- */

static struct daemon server;

static tarn_store *open_store(void)
{
	tarn_store *store;

	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	return store;
}

/* Under the same mtime: only who reads the header finds it out. */
static void rename_tensor(void)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || pwrite(fd, "c", 1, 10) != 1 ||
		futimens(fd, (struct timespec[]) {st.st_atim, st.st_mtim}) < 0)
		bail("%s: %m", path);
	close(fd);
}

/* It has no names, so there is no commit that wakes. */
static void test_loaded(tarn_store *store)
{
	tarn_file *file = make_file("b.safetensors", "b", 100000);
	tarn_store *other = open_store();
	struct tarn_load_info info;
	uint32_t changed;

	is_int(-ENOENT, tarn_store_wait_file(store, file, 0, 0, NULL),
		"a file that is not loaded yet is not waited for");
	changed = store->table.header->changed;
	is_int(0, tarn_store_load(other, file, NULL, NULL, NULL),
		"the file is loaded by another client");
	ok(store->table.header->changed != changed,
		"a waiting client is woken when the load is done");
	is_int(0, tarn_store_wait_file(store, file, 0, 0, NULL),
		"a wait for the loaded file ends at once");
	is_int(0, tarn_store_load(store, file, NULL, &info, NULL),
		"the waiting client loads the file");
	ok(info.cached, "the waiting client's load is from the cache");
	tarn_file_unref(file);
	unlink(path);
	file = make_file("other.safetensors", "b", 100000);
	rename_tensor();
	changed = store->table.header->changed;
	ok(tarn_store_load(other, file, NULL, NULL, NULL) < 0,
		"another client's load fails");
	ok(store->table.header->changed != changed,
		"a waiting client is woken when the load fails");
	tarn_store_unref(other);
	tarn_file_unref(file);
	unlink(path);
}

int main(void)
{
	tarn_store *store;

	test_played();
	daemon_start(&server, "sock", NULL);
	store = open_store();
	test_loaded(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(38);
}
