/* SPDX-License-Identifier: MIT */
/* See again.h. */
#include "tests/kit/again.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

#define LOOKS 10 /* that find it asleep: it is in its call */
#define LOOK_US 20000
#define PATIENCE_S 60.0 /* on a loaded machine */
#define ROOM "99990"    /* bytes of requests under way: BUSY, and some */
#define BUSY 99900

struct raw raw;
struct table table;
tarn_store *other;

static int fitting; /* answers in a socket */
static int answers_that_fit(const struct daemon *daemon);

void again_open(const struct daemon *daemon)
{
	raw_open(&raw, daemon->socket);
	if (table_map(raw.table, false, &table) < 0 ||
		tarn_store_open(daemon->socket, NULL, &other) < 0)
		bail("%s", tarn_error_message());
	fitting = answers_that_fit(daemon);
}

void again_close(void)
{
	raw_close(&raw);
	other = tarn_store_unref(other);
	table_unmap(&table);
}

void request(uint16_t type, uint32_t serial, const void *body, size_t size,
	bool again)
{
	raw.serial = again ? serial : serial - 1;
	raw.again = again;
	raw.error = 0;
	if (raw_send(&raw, type, body, size, NULL, 0) < 0)
		bail("request %u cannot be sent", serial);
	raw.again = false;
}

int answer_to(uint16_t type, uint32_t serial, const void *body, size_t size,
	bool again)
{
	request(type, serial, body, size, again);
	return raw_answer(&raw);
}

/* ---- the death of a server ----------------------------------------------- */

/* Has the server read all that was sent? It reads one message in each of its
 * turns, and other's calls take turns. */
static bool is_read(const struct raw *asker)
{
	struct tarn_report_daemon status;
	int unread = 1;

	for (int i = 0; i < LOOKS && unread; i++) {
		if (ioctl(asker->fd, SIOCOUTQ, &unread) < 0 ||
			report_daemon(other, &status) < 0)
			bail("is it heard? %m");
	}
	return !unread;
}

/* How many answers a socket takes. A client is not heard while one more waits
 * for room. */
static int answers_that_fit(const struct daemon *daemon)
{
	struct raw asker;
	int n = 0;

	raw_open(&asker, daemon->socket);
	do
		if (raw_send(&asker, WIRE_PING, NULL, 0, NULL, 0) < 0)
			bail("a question cannot be sent");
	while (is_read(&asker) && ++n);
	raw_close(&asker);
	return n - 1;
}

void fill_socket(void)
{
	for (int i = 0; i < fitting; i++)
		if (raw_send(&raw, WIRE_PING, NULL, 0, NULL, 0) < 0)
			bail("a question cannot be sent");
}

void follow_server(void)
{
	int type;

	while ((type = raw_answer(&raw)) != WIRE_RESTARTED)
		if (type <= 0)
			bail("nothing is heard of the next server");
	raw_send(&raw, WIRE_RESUME, &raw.restarted, sizeof(raw.restarted), NULL,
		0);
	if (raw_answer(&raw) != WIRE_WELCOME)
		bail("the next server does not resume");
}

void change_server(const struct daemon *daemon)
{
	server_kill(daemon);
	follow_server();
}

void send_resent(void)
{
	if (raw_send(&raw, WIRE_RESENT, NULL, 0, NULL, 0) < 0)
		bail("nothing can be sent");
}

/* ---- others, and the table ----------------------------------------------- */

void publish(const char *name)
{
	const int64_t shape[] = {1};
	struct tarn_publish_item item = {.name = name};

	if (tarn_store_create(other, TARN_F32, 1, shape, 0, &item.tensor) < 0 ||
		tarn_store_publish(other, &item, 1, NULL, NULL) < 0)
		bail("%s: %s", name, tarn_error_message());
	tarn_tensor_unref(item.tensor);
}

void take_away(const char *name)
{
	if (tarn_store_remove(other, name) < 0)
		bail("%s: %s", name, tarn_error_message());
}

int64_t version_of(const char *name)
{
	struct table_name found;
	int r = table_find(&table, name, strlen(name), &found);

	return r < 0 ? r : (int64_t)found.version;
}

void until_version(const char *name, int64_t version)
{
	double end = seconds() + PATIENCE_S;

	while (version_of(name) != version && seconds() < end)
		usleep(1000);
	if (version_of(name) != version)
		bail("%s: its version is %lld, not %lld", name,
			(long long)version_of(name), (long long)version);
}

static uint32_t n_completions(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < table.header->n_completions; i++)
		n += table.completions[i].commit != 0;
	return n;
}

void until_completions(uint32_t n)
{
	double end = seconds() + PATIENCE_S;

	while (n_completions() != n && seconds() < end)
		usleep(1000);
	if (n_completions() != n)
		bail("there are %u completions, not %u", n_completions(), n);
}

/* ---- by the library ------------------------------------------------ */

/* Opens, says so, and asks when told to; its exit status is the errno. */
static void ask_as_told(const struct sleeper *s, const char *socket,
	int (*prepare)(tarn_store *store, const char *what),
	int (*ask)(tarn_store *store, const char *what), const char *what)
{
	tarn_store *store;
	char byte;
	int r;

	if (tarn_store_open(socket, NULL, &store) < 0 ||
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

void take_room(struct raw *busy, const struct daemon *daemon)
{
	raw_open(busy, daemon->socket);
	kill(daemon->pid, SIGSTOP);
	publish_msg_send_waiting(busy, BUSY);
	raw_send(busy, WIRE_PING, NULL, 0, NULL, 0);
	if (raw_receive(busy, RAW_PATIENCE_MS) != WIRE_PONG)
		bail("the room for requests is not taken: %s", busy->text);
}

void give_room(struct raw *busy, const struct daemon *daemon)
{
	raw_close(busy);
	kill(daemon->pid, SIGCONT);
}
