/* SPDX-License-Identifier: MIT */
/*
 * The faults that a daemon can have: another version, garbage, silence, a
 * death in the middle, lies. Each is one clear error within the deadline; no
 * call hangs, and no descriptor is left open.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/pool_segments.h"
#include "lib/store/store.h"
#include "tests/kit/fake_daemon.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define QUICK_MS 300      /* the deadline of a call that is not answered */
#define PATIENCE_MS 60000 /* for those that answer, on a loaded machine */

static int deadline_of(enum fake_mode mode)
{
	return mode == FAKE_HANGS ? QUICK_MS : PATIENCE_MS;
}

static void opens_badly(
	enum fake_mode mode, int err, const char *part, const char *what)
{
	int fds = count_fds(getpid());
	struct fake fake;
	tarn_store *store = NULL;
	int fd = fake_start(&fake, mode);
	double start = seconds();

	is_int(-err,
		store_open_fd(fd, "/the/socket", "", deadline_of(mode), &store),
		"%s: the store is not opened", what);
	has_str(part, tarn_error_message(), "the error contains the reason");
	ok(store == NULL && seconds() - start < PATIENCE_MS / 1e3,
		"the refusal comes within the deadline");
	fake_stop(&fake);
	is_int(fds, count_fds(getpid()),
		"no descriptor is left after the failure");
}

static void test_open(void)
{
	opens_badly(FAKE_WRONG_VERSION, EPROTO, "version 99",
		"a version of the future");
	opens_badly(FAKE_REFUSES, EACCES, "the fake says no",
		"a daemon that refuses");
	opens_badly(FAKE_GARBAGE, EPROTO, "does not speak tarn", "garbage");
	opens_badly(FAKE_OTHER_TYPE, EPROTO, "type 1",
		"an answer that is a request");
	opens_badly(FAKE_SHORT, EPROTO, "4 bytes", "half a welcome");
	opens_badly(FAKE_NO_FDS, EPROTO, "0 descriptors",
		"a welcome without descriptors");
	opens_badly(FAKE_WRONG_FDS, EPROTO, "", "other descriptors");
	opens_badly(FAKE_OTHER_TABLE, EPROTO, "1122334455667789",
		"another's table");
	opens_badly(FAKE_HANGS, ETIMEDOUT, "no answer within 300 ms",
		"one that hangs");
	opens_badly(FAKE_DIES, ECONNRESET, "/the/socket: it closed",
		"one that closes");
	opens_badly(FAKE_UNSEALED, EPERM, "seal", "unsealed segments");
	opens_badly(FAKE_SEALED_SIZE, EPERM, "seal",
		"segments that could be written, in a pool that has no such");
	opens_badly(FAKE_OPEN_TABLE, EPERM, "control region is not sealed",
		"an unsealed table");
	opens_badly(
		FAKE_FEW_SEGMENTS, EPROTO, "2 descriptors", "too few segments");
	opens_badly(FAKE_WRONG_SERIAL, ESTALE, "segment 0 is number 2",
		"a descriptor of another segment than its table shows");
	opens_badly(FAKE_NO_SERIALS, EPROTO, "in 8 bytes",
		"descriptors of no segment that is named");
	opens_badly(
		FAKE_BAD_POOL, EPROTO, "pool 5 reaches", "an impossible pool");
	opens_badly(FAKE_BAD_SEGMENT, EPROTO, "segment 1",
		"a segment outside of its pool");
}

/* ---- calls ----------------------------------------------------------- */

static tarn_store *open_fake(struct fake *fake, enum fake_mode mode)
{
	tarn_store *store;
	int fd = fake_start(fake, mode);

	if (store_open_fd(fd, "/the/socket", "", deadline_of(mode), &store) < 0)
		bail("open: %s", tarn_error_message());
	return store;
}

static void test_used_again(enum fake_mode mode, const char *when)
{
	struct fake fake;
	tarn_store *store = open_fake(&fake, mode);
	void *p = NULL;

	diag("the number of a segment is used again %s", when);
	is_int(0,
		pool_map_range(&store->pools, 5,
			FAKE_SEGMENTS * (uint64_t)FAKE_SEGMENT, 4096, &p),
		"the new segment is mapped where the table shows it");
	if (p)
		is_mem(fake.memory[1], p, 4096,
			"the new segment has its own bytes");
	is_int(-EBADMSG,
		pool_map_range(&store->pools, 5, FAKE_SEGMENT, 4096, &p),
		"nothing is mapped where the old segment was");
	tarn_store_unref(store);
	fake_stop(&fake);
}

/* Such segments are mapped for reading, as all are. */
static void test_register(void)
{
	struct fake fake;
	tarn_store *store = open_fake(&fake, FAKE_REGISTER);
	struct segment_mapping mapping;
	void *p = NULL;

	is_int(0, pool_map_range(&store->pools, 5, 4096, 4096, &p),
		"segments that can be written are mapped where the pool says so");
	if (p)
		is_mem(fake.memory[0] + 4096, p, 4096, "they have their bytes");
	pthread_mutex_lock(&store->pools.lock);
	mapping = store->pools.mappings[0];
	is_int(-EPERM, pool_segments_fetch_writable(&store->pools, &mapping),
		"a descriptor for reading is refused where one for writing was "
		"asked for");
	pthread_mutex_unlock(&store->pools.lock);
	tarn_store_unref(store);
	fake_stop(&fake);
}

static void test_report(void)
{
	struct tarn_report_daemon status;
	struct fake fake;
	tarn_store *store = open_fake(&fake, FAKE_GOOD);

	is_int(0, report_daemon(store, &status), "a report is answered");
	is_str("fake", status.engine, "the report has the engine");
	is_int(15, (int64_t)strlen(status.version),
		"the report's version is terminated");
	is_str("/the/socket", tarn_store_socket(store),
		"the store has the path of its socket");
	is_int(-ENOENT, tarn_store_remove(store, "gone"),
		"a refused removal is an error");
	is_str("the fake says no", tarn_error_message(),
		"the error has the daemon's own sentence");
	is_int(0, tarn_store_remove(store, "there"),
		"the connection survives a refusal");
	is_int(-EINVAL, tarn_store_remove(store, ""),
		"an empty name is refused");
	is_int(0, tarn_store_stop(store), "the daemon is asked to stop");
	fake_stop(&fake);
	is_int(-ECONNRESET, report_daemon(store, &status),
		"a call after the daemon's end is ECONNRESET");
	has_str("/the/socket", tarn_error_message(),
		"the error after the daemon's end names the socket");
	is_int(-ECONNRESET, tarn_store_stop(store),
		"a second call fails with the same error");
	tarn_store_unref(store);

	store = open_fake(&fake, FAKE_REPORT_SHORT);
	is_int(-EPROTO, report_daemon(store, &status),
		"half a report is EPROTO");
	tarn_store_unref(store);
	fake_stop(&fake);

	store = open_fake(&fake, FAKE_REPORT_HANGS);
	store->connection.timeout_ms = QUICK_MS;
	is_int(-ETIMEDOUT, report_daemon(store, &status),
		"a report that does not come is ETIMEDOUT");
	store->connection.timeout_ms = PATIENCE_MS;
	is_int(0, tarn_store_remove(store, "x"),
		"an answer that is late does not spoil the next call");
	tarn_store_unref(store);
	fake_stop(&fake);

	store = open_fake(&fake, FAKE_REPORT_TWICE);
	is_int(0, report_daemon(store, &status),
		"a report is answered three times");
	is_int(0, tarn_store_remove(store, "x"),
		"surplus answers do not spoil the next call");
	tarn_store_unref(store);
	fake_stop(&fake);
}

/* ---- loads ----------------------------------------------------------- */

#define FILE_NUMBERS 60000

static char file_path[300];

static void make_file(void)
{
	static const char header[] =
		"{\"t\":{\"dtype\":\"I32\",\"shape\":[60000],"
		"\"data_offsets\":[0,240000]}}";
	uint64_t size = sizeof(header) - 1;
	FILE *f;

	snprintf(file_path, sizeof(file_path), "%s/f.safetensors",
		test_tmpdir());
	f = fopen(file_path, "w");
	if (!f)
		bail("%s: %s", file_path, strerror(errno));
	fwrite(&size, 8, 1, f);
	fwrite(header, 1, size, f);
	for (int32_t i = 0; i < FILE_NUMBERS; i++)
		fwrite(&i, 4, 1, f);
	fclose(f);
}

static void test_load(void)
{
	struct tarn_load_info info;
	struct fake fake;
	tarn_store *store = open_fake(&fake, FAKE_GOOD);
	tarn_file *file;
	tarn_tensor *all, *t;
	char address[400];
	int64_t at = 59999, value = 0;

	is_int(0, tarn_file_open(file_path, &file),
		"the file to be loaded is opened");
	is_int(0, tarn_store_load(store, file, NULL, &info, &all),
		"the fake daemon loads the file");
	is_int(240000, (int64_t)info.bytes, "the load reports all bytes");
	is_str("threads", info.engine, "the load reports its engine");
	ok(!info.direct && !info.registered && !info.cached,
		"the load reports cached, direct and registered as sent");
	ok(info.cpu_seconds >= 0.001 && info.seconds > 0,
		"the load reports its CPU time and its duration");
	is_int(240000, tarn_tensor_layout(all)->shape[0],
		"the load returns one tensor of all bytes");
	is_int(0, tarn_store_get_from_file(store, file, "t", NULL, &t),
		"the load's tensor is found by its name");
	is_int(0, tarn_tensor_get_i64(t, &at, &value),
		"an element of the loaded tensor is read");
	is_int(59999, value, "the element of the loaded tensor is right");
	ok(tarn_tensor_same_storage(t, all),
		"the loaded tensor has the same storage");
	tarn_tensor_unref(t);
	tarn_tensor_unref(all);
	is_int(0, lease_count(fake.page), "no lease is left after the load");
	is_int(-ENOENT, tarn_store_get_from_file(store, file, "u", NULL, &t),
		"a tensor that the file does not have is refused");
	has_str("it has t", tarn_error_message(),
		"the error lists the tensors of the file");

	snprintf(address, sizeof(address), "%s:t", file_path);
	is_int(0, tarn_store_get(store, address, NULL, &t),
		"a tensor is found by FILE:TENSOR");
	must(tarn_tensor_get_i64(t, &at, &value));
	is_int(59999, value, "the tensor by FILE:TENSOR has its element");
	tarn_tensor_unref(t);
	snprintf(address, sizeof(address), "%s:u", file_path);
	is_int(-ENOENT, tarn_store_get(store, address, NULL, &t),
		"FILE:TENSOR of a tensor that does not exist is refused");
	is_int(-ENOENT, tarn_store_get(store, file_path, NULL, &t),
		"FILE without a tensor is refused");
	has_str("say which tensor", tarn_error_message(),
		"the error asks for a tensor");
	is_int(-ENOENT, tarn_store_get(store, "/no/file:t", NULL, &t),
		"FILE:TENSOR of a file that does not exist is refused");
	is_int(-ENOENT, tarn_store_get(store, "nothing", NULL, &t),
		"a name that is not published is refused");
	tarn_file_unref(file);
	tarn_store_unref(store);
	fake_stop(&fake);
}

static void loads_badly(enum fake_mode mode, int err, const char *part,
	int n_loads, const char *what)
{
	struct fake fake;
	tarn_store *store = open_fake(&fake, mode);
	tarn_tensor *all = NULL;
	tarn_file *file;

	if (tarn_file_open(file_path, &file) < 0)
		bail("%s", tarn_error_message());
	is_int(-err, tarn_store_load(store, file, NULL, NULL, &all),
		"%s: the file is not loaded", what);
	has_str(part, tarn_error_message(), "the error contains the reason");
	ok(all == NULL, "a failed load returns no tensor");
	is_int(n_loads, fake.n_loads,
		"a failed load has made the expected number of attempts");
	is_int(0, lease_count(fake.page),
		"no lease is left after a failed load");
	tarn_file_unref(file);
	tarn_store_unref(store);
	fake_stop(&fake);
}

static int stop_at_third(void *arg, enum tarn_load_phase phase,
	uint64_t done_bytes, uint64_t total)
{
	int *calls = arg;

	return ++*calls == 3;
}

static struct fake *slow; /* whose load's progress is noted */

static int note_progress(void *arg, enum tarn_load_phase phase,
	uint64_t done_bytes, uint64_t total)
{
	uint64_t *seen = arg;

	if (done_bytes >= seen[0] && done_bytes <= total)
		seen[1]++;
	seen[0] = done_bytes;
	seen[2]++;
	slow->n_seen++;
	return 0;
}

static void test_progress(void)
{
	uint64_t seen[3] = {0};
	int calls = 0;
	struct tarn_load_options cancels = {
		.progress = stop_at_third, .arg = &calls};
	struct tarn_load_options notes = {
		.progress = note_progress, .arg = seen};
	char address[400];
	struct fake fake;
	tarn_tensor *t;
	tarn_store *store = open_fake(&fake, FAKE_LOAD_HANGS);
	tarn_file *file;

	must(tarn_file_open(file_path, &file));
	is_int(-ECANCELED, tarn_store_load(store, file, &cancels, NULL, NULL),
		"progress that returns non-zero cancels");
	is_int(3, calls,
		"a progress callback that cancelled is not called again");
	snprintf(address, sizeof(address), "%s:t", file_path);
	calls = 0;
	is_int(-ECANCELED, tarn_store_get(store, address, &cancels, &t),
		"a load begun by an address can be cancelled, too");
	is_int(3, calls, "the callback by an address is called as often");
	calls = 0;
	is_int(-ECANCELED,
		tarn_store_get_from_file(store, file, "t", &cancels, &t),
		"a load begun for one tensor of a file can be cancelled, too");
	is_int(3, calls, "the callback for one tensor is called as often");
	cancels.verify = true;
	is_int(-EINVAL, tarn_store_get(store, address, &cancels, &t),
		"a load by an address cannot compare checksums");
	has_str("tarn_store_load", tarn_error_message(),
		"the error names tarn_store_load");
	is_int(0, tarn_store_remove(store, "x"),
		"the store still works after failed loads");
	tarn_store_unref(store);
	fake_stop(&fake);

	slow = &fake;
	store = open_fake(&fake, FAKE_LOAD_SLOWLY);
	is_int(0, tarn_store_load(store, file, &notes, NULL, NULL),
		"a load with progress succeeds");
	diag("%d times", (int)seen[2]);
	ok(seen[2] >= 3, "the progress of a slow load is called several times");
	is_int((int64_t)seen[2], (int64_t)seen[1],
		"the progress never decreases");
	ok(seen[0] > 0, "the progress has increased");
	tarn_file_unref(file);
	tarn_store_unref(store);
	fake_stop(&fake);
}

/* A load that hangs in one thread holds up no call of another. */
static void *load_in_thread(void *arg)
{
	tarn_store *store = arg;
	tarn_file *file;
	int r;

	must(tarn_file_open(file_path, &file));
	r = tarn_store_load(store, file, NULL, NULL, NULL);
	tarn_file_unref(file);
	return (void *)(intptr_t)r;
}

static void test_threads(void)
{
	struct tarn_report_daemon status;
	struct fake fake;
	tarn_store *store = open_fake(&fake, FAKE_LOAD_HANGS);
	int n_failed = 0;
	pthread_t thread;
	double start;
	void *r;

	pthread_create(&thread, NULL, load_in_thread, store);
	while (fake.n_loads == 0)
		usleep(1000);
	start = seconds();
	for (int i = 0; i < 200; i++)
		n_failed += report_daemon(store, &status) < 0;
	is_int(0, n_failed, "200 calls beside a load that hangs succeed");
	ok(seconds() - start < PATIENCE_MS / 1e3,
		"calls beside a load that hangs take little time");
	fake_stop(&fake);
	pthread_join(thread, &r);
	is_int(-ECONNRESET, (intptr_t)r,
		"a load ends with an error when the daemon ends");
	tarn_store_unref(store);
}

int main(void)
{
	int fds;

	make_file();
	fds = count_fds(getpid());
	test_open();
	test_used_again(FAKE_USES_AGAIN, "before the answer");
	test_used_again(FAKE_USES_AGAIN_LATE, "after the answer");
	test_register();
	test_report();
	test_load();
	loads_badly(FAKE_LOAD_DIES, ECONNRESET, "it closed the connection", 1,
		"a daemon that dies");
	loads_badly(FAKE_LOAD_FAILS, ENOSPC, "the fake says no", 1,
		"one that refuses");
	loads_badly(FAKE_LOAD_WORDY, EPROTO, "2048 are allowed", 1,
		"one whose notice could be lost");
	loads_badly(FAKE_LOAD_STALE, ESTALE, "loaded 3 times", 3,
		"one that evicts at once");
	loads_badly(FAKE_LOAD_LIES, EPROTO, "it has loaded 244096 bytes", 1,
		"one that lies about the size");
	test_progress();
	test_threads();
	is_int(fds, count_fds(getpid()),
		"no descriptor is left open at the end");
	unlink(file_path);
	return done(161);
}
