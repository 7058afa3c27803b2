/* SPDX-License-Identifier: MIT */
/* See again_kit.h. */
#include "tests/again_kit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/restart_kit.h"
#include "tests/tap.h"

#define SETTLE_US 200000 /* until somebody sleeps in a call */
#define ROOM "60100"     /* bytes of requests under way: RAW_HALF, and some */

struct raw raw;
struct table table;
tarn_store *other;

int answer_to(uint16_t type, uint32_t serial, const void *body, size_t size,
	bool again)
{
	struct wire_writer *writer;

	if (wire_writer_new(1 << 20, &writer) < 0)
		bail("writer");
	raw.error = 0;
	if (again)
		wire_push_again(writer, type, serial, body, size, NULL, 0);
	else
		wire_push(writer, type, serial, body, size, NULL, 0);
	wire_flush(writer, raw.fd);
	wire_writer_free(writer);
	return raw_answer(&raw);
}

void publish(const char *name)
{
	const int64_t shape[] = {1};
	struct tarn_publish_item item = {.name = name};

	if (tarn_store_create(other, TARN_F32, 1, shape, 0, &item.tensor) < 0 ||
		tarn_store_publish(other, &item, 1, NULL, NULL) < 0)
		bail("%s: %s", name, tarn_error_message());
	tarn_tensor_unref(item.tensor);
}

uint64_t now(void)
{
	return table.header->committed + 1;
}

int64_t version_of(const char *name)
{
	struct table_name found;
	int r = table_find(&table, name, strlen(name), &found);

	return r < 0 ? r : (int64_t)found.version;
}

/* Opens, says so, and asks when told to; its exit status is the errno. */
static pid_t asker(const char *socket,
	int (*ask)(tarn_store *store, const char *what), const char *what,
	int ready, int go)
{
	tarn_store *store;
	pid_t pid = fork();
	char byte;
	int r;

	if (pid)
		return pid;
	if (tarn_store_open(socket, &store) < 0 || write(ready, "", 1) != 1 ||
		read(go, &byte, 1) != 1)
		_exit(255);
	r = ask(store, what);
	diag("%s", r < 0 ? tarn_error_message() : "it is done");
	_exit(-r);
}

int slept(const struct daemon *daemon,
	int (*ask)(tarn_store *store, const char *what), const char *what,
	const char *published)
{
	int ready[2], go[2], status = 0;
	pid_t pid, server;
	char byte;

	if (pipe(ready) < 0 || pipe(go) < 0)
		bail("pipe: %m");
	pid = asker(daemon->socket, ask, what, ready[1], go[0]);
	if (read(ready[0], &byte, 1) != 1)
		bail("no second client");
	server = server_of(daemon);
	kill(server, SIGSTOP);
	if (write(go[1], "", 1) != 1)
		bail("write: %m");
	usleep(SETTLE_US);
	kill(pid, SIGSTOP);
	kill(server, SIGKILL);
	server_after(daemon, server);
	publish(published);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *little_room(void)
{
	static char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/conf", test_tmpdir());
	f = fopen(path, "we");
	if (!f ||
		fprintf(f, "[quota %u]\nrequests = %s\n", geteuid(), ROOM) <
			0 ||
		fclose(f) != 0)
		bail("cannot write %s: %m", path);
	return path;
}

void say_half(struct raw *half, const char *socket)
{
	if (raw_open_half(half, socket, 1) != 1)
		bail("half a message cannot be said");
}
