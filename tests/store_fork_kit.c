/* SPDX-License-Identifier: MIT */
#include "tests/store_fork_kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

#define LARGE (40ull << 20)

struct daemon kit_daemon;
tarn_store *kit_store;
tarn_file *kit_one, *kit_two, *kit_small;

/* A file of one tensor "b": a byte 42, zeros, and a byte 43. */
static tarn_file *make_file(const char *name, uint64_t bytes)
{
	char path[300], text[100];
	uint64_t size;
	tarn_file *file;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	snprintf(text, sizeof(text),
		"{\"b\":{\"dtype\":\"U8\",\"shape\":[%llu],"
		"\"data_offsets\":[0,%llu]}}",
		(unsigned long long)bytes, (unsigned long long)bytes);
	size = strlen(text);
	f = fopen(path, "w");
	if (!f || fwrite(&size, 8, 1, f) != 1 ||
		fwrite(text, size, 1, f) != 1 || fputc(42, f) < 0 ||
		fseek(f, (long)(bytes - 2), SEEK_CUR) < 0 || fputc(43, f) < 0 ||
		fclose(f) != 0)
		bail("%s: %m", path);
	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	unlink(path);
	return file;
}

void kit_begin(void)
{
	const char *const options[] = {
		"--budget", "64M", "--segment-size", "32M", NULL};

	daemon_start(&kit_daemon, "d.sock", options);
	kit_one = make_file("one.safetensors", LARGE);
	kit_two = make_file("two.safetensors", LARGE);
	kit_small = make_file("small.safetensors", 4096);
	if (tarn_store_open(kit_daemon.socket, &kit_store) < 0)
		bail("%s", tarn_error_message());
}

void kit_end(void)
{
	tarn_store_unref(kit_store);
	tarn_file_unref(kit_one);
	tarn_file_unref(kit_two);
	tarn_file_unref(kit_small);
	is_int(0, daemon_stop(&kit_daemon), "the daemon ends as asked");
}

bool kit_is_right(const tarn_tensor *t)
{
	const unsigned char *p = t ? tarn_tensor_data(t) : NULL;

	return p && p[0] == 42 && p[LARGE / 2] == 0 && p[LARGE - 1] == 43;
}

tarn_tensor *kit_get_one(void)
{
	struct tarn_load_options options = {.name = "one"};
	tarn_tensor *t;

	if (tarn_store_load(kit_store, kit_one, &options, NULL, NULL) < 0 ||
		tarn_store_lookup(kit_store, "one/b", &t) < 0 ||
		tarn_store_remove(kit_store, "one/b") < 0)
		bail("%s", tarn_error_message());
	return t;
}

bool kit_has_room(void)
{
	return tarn_store_load(kit_store, kit_two, NULL, NULL, NULL) >= 0;
}

bool kit_gets_room(void)
{
	for (int i = 0; i < 1000 && !kit_has_room(); i++)
		usleep(20000);
	return kit_has_room();
}

int64_t kit_clients(void)
{
	struct tarn_store_status status = {0};

	tarn_store_get_status(kit_store, &status);
	return (int64_t)status.clients;
}

bool kit_is_alone(void)
{
	for (int i = 0; i < 1000 && kit_clients() != 1; i++)
		usleep(20000);
	return kit_clients() == 1;
}

int kit_finished(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
