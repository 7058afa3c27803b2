/* SPDX-License-Identifier: MIT */
/*
 * The header and the bytes of a file are of one version, or there is an error:
 * for a file that was opened before it was rewritten, and for one that a
 * writer rewrites all the time. Of the latter only cached loads are promised:
 * a write within one step of the time stamps may not be seen, and then the
 * load reports that it is not cached.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/stamps.h"
#include "tests/kit/tap.h"
#include "tests/kit/versions.h"

#define RACE_MS 1500
#define PATIENCE_MS 60000 /* until a load has come between two writes */

static struct daemon server;
static tarn_store *store;
static const char *path;

static tarn_file *opened(void)
{
	tarn_file *file = NULL;

	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	return file;
}

/* ---- opened, rewritten, loaded ------------------------------------------ */

static void rewritten(void)
{
	tarn_tensor *all = NULL, *t = NULL;
	tarn_file *file = opened();

	kit_version_write(path, 1);
	is_int(-ESTALE, tarn_store_load(store, file, NULL, NULL, &all),
		"a load of a file that changed since it was opened is refused");
	has_str("changed after its header was read", tarn_error_message(),
		"the error contains 'changed after its header was read'");
	is_int(-ESTALE, tarn_file_load(file, "a", NULL, NULL, &t),
		"a load without a daemon of a file that changed is refused");
	ok(!t, "a load without a daemon that fails gives no tensor");
	tarn_file_unref(file);
	file = opened();
	is_int(0, tarn_store_load(store, file, NULL, NULL, &all),
		"a load of the file opened again succeeds");
	ok(version_is_right(all, file),
		"the file opened again has the right tensors");
	tarn_tensor_unref(all);
	tarn_file_unref(file);
}

/* Under the same mtime. */
static void stamped_back(void)
{
	tarn_file *file = opened();
	tarn_tensor *all = NULL;
	struct stat st;

	if (stat(path, &st) < 0)
		bail("%s: %m", path);
	kit_version_write(path, 0);
	if (utimensat(AT_FDCWD, path,
		    (struct timespec[]) {st.st_atim, st.st_mtim}, 0) < 0)
		bail("%s: %m", path);
	is_int(-ESTALE, tarn_store_load(store, file, NULL, NULL, &all),
		"a load of a file that changed under the same mtime is "
		"refused");
	has_str("its header", tarn_error_message(),
		"the error says that the file's header is another");
	tarn_file_unref(file);
}

/* What only changes the ctime changes no bytes. */
static void renamed_over(void)
{
	tarn_file *file = opened();
	tarn_tensor *all = NULL;

	if (unlink(path) < 0)
		bail("%s: %m", path);
	is_int(0, tarn_store_load(store, file, NULL, NULL, &all),
		"a load of an open file without a name succeeds");
	ok(all && version_is_right(all, file),
		"an open file without a name has its tensors");
	tarn_tensor_unref(all);
	tarn_file_unref(file);
	path = version_file(test_tmpdir(), "v.safetensors");
}

/* The header of a file that somebody has mapped all the time. */
static void mapped(void)
{
	const char *address = "v.safetensors:a";
	unsigned char *bytes[2], *at;
	tarn_tensor *t = NULL;
	int fd = open(path, O_RDWR | O_CLOEXEC), r, sum = 0;
	size_t size = version_bytes(0, &bytes[0]);

	version_bytes(1, &bytes[1]);
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || at == MAP_FAILED || chdir(test_tmpdir()) < 0)
		bail("%s: %m", path);
	for (int i = 0; i < 4; i++) {
		memcpy(at, bytes[i & 1], size);
		r = tarn_store_get(store, address, NULL, &t);
		sum += r >= 0 && *(unsigned char *)tarn_tensor_data(t) == 1;
		t = tarn_tensor_unref(t);
	}
	is_int(4, sum, "FILE:TENSOR of a file that a mapping rewrites is read");
	munmap(at, size);
	close(fd);
	free(bytes[0]);
	free(bytes[1]);
}

/* ---- beside a writer ---------------------------------------------------- */

/* Closed in between: what is loaded then may be kept. */
static void write_on(void)
{
	unsigned char *bytes[2];
	size_t size = version_bytes(0, &bytes[0]);

	version_bytes(1, &bytes[1]);
	for (unsigned i = 0;; i++) {
		int fd = open(path, O_WRONLY | O_CLOEXEC);

		if (pwrite(fd, bytes[i & 1], size, 0) < 0 || close(fd) < 0)
			_exit(1);
		/* 4 ms, and sometimes as long as a load takes where many share
		 * the machine. */
		usleep(i % 16 ? 4000 : 4000u << (i / 16 % 10));
	}
}

static void race(void)
{
	int64_t begun = clock_ms(), passed = 0;
	int right = 0, wrong = 0, unsure = 0, refused = 0, r;
	pid_t writer = fork();

	if (writer < 0)
		bail("fork: %m");
	if (writer == 0)
		write_on();
	while (passed < RACE_MS || (!right && passed < PATIENCE_MS)) {
		struct tarn_load_info info = {0};
		tarn_tensor *all = NULL;
		tarn_file *file = NULL;

		r = tarn_file_open(path, &file);
		if (r >= 0)
			r = tarn_store_load(store, file, NULL, &info, &all);
		if (r < 0)
			refused++;
		else if (info.not_kept)
			unsure++;
		else if (version_is_right(all, file))
			right++;
		else
			wrong++;
		tarn_tensor_unref(all);
		tarn_file_unref(file);
		passed = clock_ms() - begun;
	}
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	diag("%d right, %d refused, %d not kept", right, refused, unsure);
	is_int(0, wrong, "no cached load beside a writer has wrong tensors");
	if (stamps_last(path))
		ok(right > 0, "some loads come between two writes");
	else
		skip(1, "the stamps of this file system do not last");
}

int main(void)
{
	path = version_file(test_tmpdir(), "v.safetensors");
	daemon_start(&server, "s", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	rewritten();
	stamped_back();
	renamed_over();
	mapped();
	race();
	tarn_store_unref(store);
	unlink(path);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(14);
}
