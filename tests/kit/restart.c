/* SPDX-License-Identifier: MIT */
/* See restart.h. */
#include "tests/kit/restart.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define PATIENCE_S 60.0 /* on a loaded machine, under valgrind */

pid_t server_of(const struct daemon *daemon)
{
	return child_named(daemon->pid, "tarn-server");
}

pid_t server_after(const struct daemon *daemon, pid_t dead)
{
	double end = seconds() + PATIENCE_S;

	while (seconds() < end) {
		pid_t pid = server_of(daemon);

		if (pid > 0 && pid != dead)
			return pid;
		usleep(1000);
	}
	bail("no server comes after %d", (int)dead);
}

pid_t server_kill(const struct daemon *daemon)
{
	pid_t pid = server_of(daemon);

	if (pid > 0)
		kill(pid, SIGKILL);
	kill(daemon->pid, SIGHUP);
	return server_after(daemon, pid);
}

static void write_file(const char *path, uint32_t seed, uint64_t size)
{
	char text[200];
	uint64_t n;
	FILE *f = fopen(path, "w");

	n = (uint64_t)snprintf(text, sizeof(text),
		"{\"x\":{\"dtype\":\"U8\",\"shape\":[%llu],"
		"\"data_offsets\":[0,%llu]}}",
		(unsigned long long)size, (unsigned long long)size);
	if (!f || fwrite(&n, 8, 1, f) != 1 || fwrite(text, n, 1, f) != 1)
		bail("%s: %m", path);
	for (uint64_t i = 0; i < size; i += 8) {
		unsigned char word[8];

		for (int k = 0; k < 8; k++)
			word[k] = made_byte(i + (uint64_t)k, seed);
		fwrite(word, 1, MIN(8, size - i), f);
	}
	if (fclose(f) != 0)
		bail("%s: %m", path);
}

const char *tensor_file(const char *name, uint32_t seed, uint64_t size)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	write_file(path, seed, size);
	return path;
}

int tensor_load(tarn_store *store, const char *path, const char *name)
{
	struct tarn_load_options options = {.name = name};
	tarn_file *file;
	int r = tarn_file_open(path, &file);

	if (r < 0)
		return r;
	r = tarn_store_load(store, file, &options, NULL, NULL);
	tarn_file_unref(file);
	return r;
}

bool tensor_is(const tarn_tensor *tensor, uint32_t seed, uint64_t size)
{
	const unsigned char *p = tarn_tensor_data(tensor);
	const struct tarn_layout *layout = tarn_tensor_layout(tensor);

	if (!p || layout->ndim != 1 || (uint64_t)layout->shape[0] != size)
		return false;
	for (uint64_t i = 0; i < size; i++)
		if (p[i] != made_byte(i, seed))
			return false;
	return true;
}

int tensor_check(
	tarn_store *store, const char *name, uint32_t seed, uint64_t size)
{
	tarn_tensor *tensor;
	bool right;

	if (tarn_store_lookup(store, name, &tensor) < 0)
		return 0;
	right = tensor_is(tensor, seed, size);
	tarn_tensor_unref(tensor);
	return right ? 1 : -1;
}

bool used_becomes(tarn_store *store, uint64_t used)
{
	double end = seconds() + PATIENCE_S;
	struct tarn_report_daemon s = {.used = ~0ull};

	while (seconds() < end) {
		if (report_daemon(store, &s) >= 0 && s.used == used)
			return true;
		usleep(10000);
	}
	diag("%llu bytes are used, not %llu", (unsigned long long)s.used,
		(unsigned long long)used);
	return false;
}
