/* SPDX-License-Identifier: MIT */
#include "tests/kit/store_fork.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/store/store.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define LARGE (40ull << 20)
#define PATIENCE_MS 60000

struct daemon kit_fork_daemon;
tarn_store *kit_fork_store;
tarn_file *kit_fork_one, *kit_fork_two, *kit_fork_small;

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

void kit_fork_begin(void)
{
	const char *const options[] = {
		"--budget", "64M", "--segment-size", "32M", NULL};

	store_fork_timeout_ms = PATIENCE_MS;
	daemon_start(&kit_fork_daemon, "d.sock", options);
	kit_fork_one = make_file("one.safetensors", LARGE);
	kit_fork_two = make_file("two.safetensors", LARGE);
	kit_fork_small = make_file("small.safetensors", 4096);
	if (tarn_store_open(kit_fork_daemon.socket, NULL, &kit_fork_store) < 0)
		bail("%s", tarn_error_message());
	/* The connection that daemon_start() made may not be closed yet. */
	if (!kit_fork_is_alone())
		bail("a client of before stays");
}

void kit_fork_end(void)
{
	tarn_store_unref(kit_fork_store);
	tarn_file_unref(kit_fork_one);
	tarn_file_unref(kit_fork_two);
	tarn_file_unref(kit_fork_small);
	is_int(0, daemon_stop(&kit_fork_daemon),
		"the daemon ends without an error");
}

bool kit_fork_is_right(const tarn_tensor *t)
{
	const unsigned char *p = t ? tarn_tensor_data(t) : NULL;

	return p && p[0] == 42 && p[LARGE / 2] == 0 && p[LARGE - 1] == 43;
}

tarn_tensor *kit_fork_get_one(void)
{
	struct tarn_load_options options = {.name = "one"};
	tarn_tensor *t;

	if (tarn_store_load(
		    kit_fork_store, kit_fork_one, &options, NULL, NULL) < 0 ||
		tarn_store_lookup(kit_fork_store, "one/b", &t) < 0 ||
		tarn_store_remove(kit_fork_store, "one/b") < 0)
		bail("%s", tarn_error_message());
	return t;
}

bool kit_fork_has_room(void)
{
	return tarn_store_load(
		       kit_fork_store, kit_fork_two, NULL, NULL, NULL) >= 0;
}

bool kit_fork_gets_room(void)
{
	for (int i = 0; i < 3000 && !kit_fork_has_room(); i++)
		usleep(20000);
	return kit_fork_has_room();
}

static void away(char path[300])
{
	snprintf(path, 300, "%s.away", kit_fork_daemon.socket);
}

/* Every two seconds, the keeper restores a socket that is not there. */
void kit_fork_hide(void)
{
	char path[300];
	int status;

	if (kill(kit_fork_daemon.pid, SIGSTOP) < 0 ||
		waitpid(kit_fork_daemon.pid, &status, WUNTRACED) < 0 ||
		!WIFSTOPPED(status))
		bail("the keeper cannot be stopped");
	away(path);
	if (rename(kit_fork_daemon.socket, path) < 0)
		bail("rename: %m");
}

void kit_fork_show(void)
{
	char path[300];

	away(path);
	if (rename(path, kit_fork_daemon.socket) < 0)
		bail("rename: %m");
	kill(kit_fork_daemon.pid, SIGCONT);
}

int64_t kit_fork_clients(void)
{
	struct tarn_report_daemon status = {0};

	report_daemon(kit_fork_store, &status);
	return (int64_t)status.clients;
}

bool kit_fork_is_alone(void)
{
	for (int i = 0; i < 3000 && kit_fork_clients() != 1; i++)
		usleep(20000);
	return kit_fork_clients() == 1;
}

int kit_fork_finished(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
