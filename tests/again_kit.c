/* SPDX-License-Identifier: MIT */
/* See again_kit.h. */
#include "tests/again_kit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/restart_kit.h"
#include "tests/tap.h"

#define LOOKS 10 /* that find it asleep: it is in its call */
#define LOOK_US 20000
#define PATIENCE_S 20.0 /* on a loaded machine */
#define ROOM "60100"    /* bytes of requests under way: RAW_HALF, and some */

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
static void ask_as_told(const struct sleeper *s, const char *socket,
	int (*prepare)(tarn_store *store, const char *what),
	int (*ask)(tarn_store *store, const char *what), const char *what)
{
	tarn_store *store;
	char byte;
	int r;

	if (tarn_store_open(socket, &store) < 0 ||
		(prepare && prepare(store, what) < 0) ||
		write(s->ready[1], "", 1) != 1 || read(s->go[0], &byte, 1) != 1)
		_exit(255);
	r = ask(store, what);
	diag("%s", r < 0 ? tarn_error_message() : "it is done");
	_exit(-r);
}

static bool is_asleep(pid_t pid)
{
	char path[64], text[512];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_read_text(path, text, sizeof(text)) <= 0)
		bail("no process %d", (int)pid);
	p = strrchr(text, ')');
	return p && p[1] && p[2] == 'S';
}

/* It has been told to ask, has said what it had to, and waits. */
static void until_asked(const struct sleeper *s)
{
	double end = seconds() + PATIENCE_S;
	int n = 0, unread;

	while (n < LOOKS && seconds() < end) {
		if (ioctl(s->go[0], FIONREAD, &unread) < 0)
			bail("FIONREAD: %m");
		n = !unread && is_asleep(s->pid) ? n + 1 : 0;
		usleep(LOOK_US);
	}
	if (n < LOOKS)
		bail("process %d does not sleep", (int)s->pid);
}

void sleeper_begin(struct sleeper *s, const struct daemon *daemon,
	int (*prepare)(tarn_store *store, const char *what),
	int (*ask)(tarn_store *store, const char *what), const char *what)
{
	char byte;

	if (pipe(s->ready) < 0 || pipe(s->go) < 0)
		bail("pipe: %m");
	s->pid = fork();
	if (s->pid == 0)
		ask_as_told(s, daemon->socket, prepare, ask, what);
	close(s->ready[1]);
	if (read(s->ready[0], &byte, 1) != 1)
		bail("no second client");
	s->server = server_of(daemon);
	kill(s->server, SIGSTOP);
	if (write(s->go[1], "", 1) != 1)
		bail("write: %m");
	until_asked(s);
	kill(s->pid, SIGSTOP);
}

void sleeper_serve(const struct sleeper *s)
{
	kill(s->server, SIGCONT);
}

void sleeper_crash(const struct sleeper *s, const struct daemon *daemon)
{
	kill(s->server, SIGKILL);
	server_after(daemon, s->server);
}

int sleeper_end(struct sleeper *s)
{
	int status = 0;

	kill(s->pid, SIGCONT);
	waitpid(s->pid, &status, 0);
	close(s->ready[0]);
	close(s->go[0]);
	close(s->go[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int slept(const struct daemon *daemon,
	int (*ask)(tarn_store *store, const char *what), const char *what,
	const char *published)
{
	struct sleeper s;

	sleeper_begin(&s, daemon, NULL, ask, what);
	sleeper_crash(&s, daemon);
	publish(published);
	return sleeper_end(&s);
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

void until_refused(int (*ask)(void))
{
	for (int i = 0; i < 2000; i++) {
		if (ask() == WIRE_ERROR)
			return;
		usleep(10000);
	}
	bail("there is room for ever");
}
