/* SPDX-License-Identifier: MIT */
/* See fail_alloc.h; and the scenario of fail.h. */
#include "tests/kit/fail.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define BYTES 4096 /* of the file's tensor */

/* ---- the page ------------------------------------------------------------ */

bool fail_open(const char *folder, struct fail_page **ret)
{
	const char *build = getenv("top_builddir");
	char path[4096], module[4096];
	void *map;
	int fd;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(1, "the sanitizers have a heap of their own");
	return false;
#endif
	snprintf(module, sizeof(module), "%s/tests/kit/.libs/libfail_alloc.so",
		build ? build : ".");
	if (access(module, R_OK) < 0) {
		skip(1, "%s was not built (--disable-shared?)", module);
		return false;
	}
	snprintf(path, sizeof(path), "%s/fail-alloc", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 4096) < 0)
		bail("%s: %m", path);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		bail("%s: %m", path);
	close(fd);
	setenv(FAIL_ALLOC_FILE, path, 1);
	setenv("LD_PRELOAD", module, 1);
	*ret = map;
	return true;
}

void fail_close(const char *folder)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/fail-alloc", folder);
	unlink(path);
}

void fail_arm(struct fail_page *page, pid_t pid, int n)
{
	atomic_store(&page->hits, 0);
	atomic_store(&page->left, n);
	atomic_store(&page->blocks, 0);
	atomic_store(&page->pid, pid);
}

bool fail_disarm(struct fail_page *page)
{
	atomic_store(&page->pid, 0);
	return atomic_load(&page->hits) > 0;
}

/* ---- the scenario -------------------------------------------------- */

/* Written anew each time, so that its bytes are read each time. */
void scenario_prepare(const char *path)
{
	static const char head[] =
		"{\"x\":{\"dtype\":\"U8\",\"shape\":[4,1024],"
		"\"data_offsets\":[0,4096]}}  ";
	unsigned char bytes[BYTES];
	uint64_t size = sizeof(head) - 1;
	FILE *f = fopen(path, "w");

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7);
	if (!f || fwrite(&size, 8, 1, f) != 1 ||
		fwrite(head, size, 1, f) != 1 ||
		fwrite(bytes, sizeof(bytes), 1, f) != 1)
		bail("%s: %m", path);
	fclose(f);
}

static int count_one(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	++*(int *)arg;
	return 0;
}

static int load_and_look(tarn_store *store, const char *path)
{
	struct tarn_load_options options = {.name = "file"};
	tarn_tensor *t = NULL, *v = NULL;
	tarn_file *file = NULL;
	char *text = NULL;
	double value = 0;
	int n = 0, r = tarn_file_open(path, &file);

	if (r >= 0)
		r = tarn_store_load(store, file, &options, NULL, NULL);
	if (r >= 0)
		r = tarn_store_lookup(store, "file/x", &t);
	if (r >= 0)
		r = tarn_tensor_eval(t, "[1:3, ::2].reshape(-1)", &v);
	if (r >= 0)
		r = tarn_tensor_get_f64(v, (int64_t[]) {3}, &value);
	if (r >= 0 && value != (unsigned char)((1024 + 6) * 7))
		bail("wrong bytes: %g", value);
	if (r >= 0)
		r = tarn_tensor_format(v, 6, &text);
	if (r >= 0)
		r = tarn_store_list(store, NULL, count_one, &n);
	free(text);
	tarn_tensor_unref(v);
	tarn_tensor_unref(t);
	tarn_file_unref(file);
	return r;
}

static int publish(tarn_store *store, int64_t elements)
{
	struct tarn_publish_item item = {.name = "made"};
	int r = tarn_store_create(
		store, TARN_F32, 1, &elements, 0, &item.tensor);

	if (r >= 0)
		r = tarn_store_publish(store, &item, 1, NULL, NULL);
	tarn_tensor_unref(item.tensor);
	return r;
}

int scenario(const char *socket, const char *path)
{
	tarn_store *store = NULL;
	int r = tarn_store_open(socket, NULL, &store);

	if (r >= 0)
		r = load_and_look(store, path);
	if (r >= 0)
		r = publish(store, 10);
	if (r >= 0)
		r = publish(store, 1 << 20); /* a memfd of its own */
	if (r >= 0)
		r = publish(store, 1 << 20); /* another in its place */
	if (r >= 0)
		r = tarn_store_remove(store, "made");
	if (r >= 0)
		r = tarn_store_remove(store, "file/x");
	tarn_store_unref(store);
	return r;
}

/* ---- the books ----------------------------------------------------- */

/* What was loaded is kept without a name for a while, so it does not count:
 * each time BYTES, which lie in two pages since they follow a header. */
static void forget_files(struct tarn_report_daemon *s)
{
	uint64_t files = s->bytes.cached / BYTES;

	s->storages -= files;
	s->used -= files * 2 * 4096;
	s->bytes.cached -= files * BYTES;
}

static bool empty(tarn_store *store, const struct tarn_report_daemon *wanted)
{
	struct tarn_report_daemon s;

	if (report_daemon(store, &s) < 0)
		return false;
	forget_files(&s);
	return s.names == wanted->names && s.storages == wanted->storages &&
	       s.used == wanted->used && s.bytes.cached == 0 &&
	       s.clients == wanted->clients && s.loads_active == 0 &&
	       s.server_pid == wanted->server_pid &&
	       s.keeper_pid == wanted->keeper_pid;
}

/* Until nothing is there but what has a name: what was removed is let go of a
 * little later. */
void scenario_settle(tarn_store *store, struct tarn_report_daemon *ret)
{
	int ms = 0;

	do {
		usleep(20000);
		ms += 20;
		if (report_daemon(store, ret) < 0)
			bail("%s", tarn_error_message());
		forget_files(ret);
	} while (ms < 60000 && (ret->clients > 1 || ret->loads_active ||
				       ret->storages > ret->names));
}

bool scenario_tidy(tarn_store *store, const struct tarn_report_daemon *wanted)
{
	struct tarn_report_daemon s = {0};

	may_fail(tarn_store_remove(store, "made"));
	may_fail(tarn_store_remove(store, "file/x"));
	for (int ms = 0; ms < 60000; ms += 5) {
		if (empty(store, wanted))
			return true;
		usleep(5000);
	}
	report_daemon(store, &s);
	forget_files(&s);
	diag("wanted: names %llu, storages %u, used %llu, server %d",
		(unsigned long long)wanted->names, (unsigned)wanted->storages,
		(unsigned long long)wanted->used, wanted->server_pid);
	diag("seen: names %llu, storages %u, used %llu, server %d, clients "
	     "%u, loads %u",
		(unsigned long long)s.names, (unsigned)s.storages,
		(unsigned long long)s.used, s.server_pid, s.clients,
		(unsigned)s.loads_active);
	return false;
}
