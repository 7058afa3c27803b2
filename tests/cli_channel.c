/* SPDX-License-Identifier: MIT */
/*
 * tarn channel, beside a producer and a consumer who take part: what is listed,
 * what is said of slots and items, what is seen as it is published without
 * being taken, and the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/cleanup.h"
#include "tests/daemon_helper.h"
#include "tests/tap.h"

#define MANY 1000 /* more than a ring of 4 slots remembers */

static struct daemon server;
static tarn_store *store;
static char out[1 << 16];

/* ---- the command ----------------------------------------------------- */

/* One that is running: what it writes, on both streams, and who it is. */
struct running {
	pid_t pid;
	FILE *f;
};

static struct running start(const char *line)
{
	int fds[2];
	struct running running;

	fflush(stdout);
	if (pipe2(fds, O_CLOEXEC) < 0)
		bail("pipe: %m");
	running.pid = fork();
	if (running.pid == 0) {
		signal(SIGINT, SIG_DFL);
		signal(SIGPIPE, SIG_DFL);
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(3);
	}
	close(fds[1]);
	running.f = fdopen(fds[0], "r");
	return running;
}

static int status_of(struct running *running)
{
	int status = 0;

	fclose(running->f);
	waitpid(running->pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

/* Leaves what it wrote in out; the exit status. */
static _printf_(1, 2) int run(const char *fmt, ...)
{
	struct running running;
	char line[512];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	n = (size_t)snprintf(line, sizeof(line), "exec \"$TARN\" ");
	vsnprintf(line + n, sizeof(line) - n, fmt, ap);
	va_end(ap);
	running = start(line);
	n = fread(out, 1, sizeof(out) - 1, running.f);
	out[n] = '\0';
	return status_of(&running);
}

/* Its next line, in out. */
static void next_line(struct running *running)
{
	if (!fgets(out, sizeof(out), running->f))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

/* ---- those who take part --------------------------------------------- */

static tarn_channel *make(const char *name, enum tarn_channel_mode mode)
{
	const struct tarn_channel_options options = {
		.mode = mode, .slots = 4, .slot_bytes = 8192, .tensors = 2};
	tarn_channel *channel;

	if (tarn_channel_open(store, name, &options, &channel) < 0)
		bail("%s: %s", name, tarn_error_message());
	return channel;
}

static tarn_slot *acquire(tarn_channel *channel)
{
	tarn_slot *slot;

	if (tarn_channel_acquire(channel, 10000, &slot) < 0)
		bail("acquire: %s", tarn_error_message());
	return slot;
}

static void publish(
	tarn_channel *channel, int64_t n, const void *tag, size_t size)
{
	tarn_slot *slot = acquire(channel);
	tarn_tensor *t;

	if (tarn_slot_empty(slot, TARN_U8, 1, &n, &t) < 0 ||
		tarn_slot_tag(slot, tag, size) < 0)
		bail("fill: %s", tarn_error_message());
	memset(tarn_tensor_data(t), 7, (size_t)n);
	tarn_tensor_unref(t);
	if (tarn_slot_publish(slot) < 0)
		bail("publish: %s", tarn_error_message());
}

static tarn_item *receive(tarn_channel *channel)
{
	tarn_item *item;

	if (tarn_channel_receive(channel, 10000, &item) < 0)
		bail("receive: %s", tarn_error_message());
	return item;
}

/* ---- tests ------------------------------------------------------------- */

static void test_nothing(void)
{
	is_int(0, run("channel ls"), "no channel is no error");
	is_str("", out, "and no line");
	is_int(0, run("channel ls --json"), "nor in JSON");
	is_str("{\"channels\":[]}\n", out, "there it is none of them");
	is_int(1, run("channel stat none"), "one that is not there");
	has_str("none", out, "is named");
	has_str("'tarn channel ls' lists those that there are", out,
		"and where to look");
	is_int(0, run("channel top -n 1"), "top of nothing");
	has_str("no channel", out, "says so");
}

/* One slot each is read, ready, filled and free. */
static void test_stat(tarn_channel *channel)
{
	tarn_slot *slot;
	tarn_item *item;

	publish(channel, 1000, "a", 1);
	publish(channel, 2000, "b", 1);
	item = receive(channel);
	slot = acquire(channel);
	is_int(0, run("channel ls"), "ls");
	is_str("run/decoded  queue          4 x 8.00 KiB         1 ready  "
	       "1 in, 1 out\n",
		out, "has a line for each");
	is_int(0, run("channel ls nothing"), "ls of a prefix");
	is_str("", out, "that none has");
	is_int(0, run("channel stat run/decoded"), "stat");
	has_str("run/decoded: queue, 4 slots of 8.00 KiB, items of up to 2 "
		"tensors\n",
		out, "tells what it is");
	has_str("[=#+.]\n", out, "draws the slots");
	has_str("= 1 being read, # 1 ready, + 1 being filled, . 1 free\n", out,
		"and counts them");
	has_str("published  2 items", out, "counts what went in");
	has_str("producers  1, consumers: 1\n", out, "and who takes part");
	is_int(0, run("channel stat run/decoded --json"), "stat --json");
	has_str("{\"name\":\"run/decoded\",\"mode\":\"queue\",\"slots\":4,"
		"\"slot_bytes\":8192,\"tensors\":2,\"free\":1,\"filling\":1,"
		"\"ready\":1,\"reading\":1,\"producers\":1,\"consumers\":1,"
		"\"closed\":false,\"published\":2,",
		out, "has the same");
	is_int(0, run("channel top -n 2 -e 0.1 run/"), "top");
	has_str("run/decoded        [=#+.          ]     1        -           "
		"- "
		"  1   1 ",
		out, "draws a row, at first without a rate");
	has_str("     1      0.0         0 B   1   1 ", out, "then with one");
	tarn_slot_abandon(slot);
	tarn_item_unref(item);
	tarn_item_unref(receive(channel));
}

static void test_other_verbs(void)
{
	is_int(0, run("ls"), "tarn ls");
	is_str("run/decoded  channel  -  -\n", out, "calls it a channel");
	is_int(0, run("ls --json"), "tarn ls --json");
	is_str("{\"tensors\":[{\"name\":\"run/decoded\",\"dtype\":null,"
	       "\"shape\":[],\"channel\":true,\"bytes\":null}]}\n",
		out, "has no dtype of it");
	is_int(0, run("info run"), "tarn info of a folder");
	has_str("run: published, 1 channel\n", out, "tells it from tensors");
	is_int(1, run("print run/decoded"), "it cannot be printed");
	has_str("'run/decoded' is a channel", out, "since it is one");
	has_str("'tarn channel stat run/decoded'", out, "and what can be done");
	is_int(1, run("save run %s/x.npy", test_tmpdir()), "nor saved");
	has_str("nothing is published", out, "as a tensor");
	is_int(1, run("save run/decoded %s/x.npy", test_tmpdir()),
		"nor by its name");
	has_str("'run/decoded' is a channel", out, "for the same reason");
	is_int(1, run("copy run/decoded %s/x.npy", test_tmpdir()),
		"nor copied");
	has_str("'run/decoded' is a channel", out, "likewise");
	is_int(0, run("status"), "tarn status");
	has_str("; channels: 1\n", out, "counts it");
	is_int(0, run("metrics"), "so does tarn metrics");
	has_str("} 1\n",
		strstr(out, "tarn_pool_channels{")
			? strstr(out, "tarn_pool_channels{")
			: "",
		"in its pool");
}

/* A tensor is not taken for one. */
static void test_tensor(void)
{
	struct tarn_publish_item item = {.name = "run/tensor"};
	int64_t n = 4;

	if (tarn_store_create(store, TARN_U8, 1, &n, 0, &item.tensor) < 0 ||
		tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		bail("tensor: %s", tarn_error_message());
	tarn_tensor_unref(item.tensor);
	is_int(1, run("channel stat run/tensor"), "a tensor is no channel");
	has_str("'tarn info run/tensor' tells what it is", out,
		"and what it is");
	is_int(1, run("channel rm run/tensor run/decode"),
		"nor is it removed as one");
	has_str("did you mean 'run/decoded'?", out, "and what was meant");
	is_int(1, run("channel stat ''"), "what is no name");
	ok(!strstr(out, "tarn info"), "is not something else");
	is_int(0, run("info run"), "tarn info counts both");
	has_str("run: published, 1 tensor, 4 B, 1 channel\n", out, "apart");
	is_int(0, run("rm run/tensor"), "it is still there");
	is_int(0, run("channel ls"), "ls has no tensors");
	ok(!strstr(out, "run/tensor"), "but channels");
}

/* What was published before somebody looks, he does not see. */
static void publish_until_seen(
	tarn_channel *channel, bool consumed, struct running *by)
{
	struct pollfd p = {.fd = fileno(by->f), .events = POLLIN};
	int items = 0;

	do {
		publish(channel, 16, "hello", 5);
		if (consumed)
			tarn_item_unref(receive(channel));
		if (++items > 6000)
			bail("nothing is seen within a minute");
	} while (poll(&p, 1, 10) <= 0);
}

static void test_tail(tarn_channel *channel)
{
	struct running tail = start("exec \"$TARN\" channel tail run/decoded");

	publish_until_seen(channel, true, &tail);
	publish(channel, 2000, "\0\1\377", 3);
	tarn_item_unref(receive(channel));
	publish(channel, 3000, "", 0);
	tarn_item_unref(receive(channel));
	next_line(&tail);
	has_str("16 B  1 tensor  \"hello\"", out, "an item as it is published");
	while (strstr(out, "\"hello\""))
		next_line(&tail);
	has_str("1.95 KiB  1 tensor  0x0001ff", out, "a tag that is no text");
	next_line(&tail);
	has_str("2.93 KiB  1 tensor", out, "and none");
	ok(!strstr(out, "0x"), "is nothing");
	is_int(0, run("channel close run/decoded"), "close");
	is_int(0, status_of(&tail), "ends it with the channel");
}

static void test_tail_json(tarn_channel *channel)
{
	struct running tail =
		start("exec \"$TARN\" channel tail -j -n 2 run/other");

	publish_until_seen(channel, false, &tail);
	publish_until_seen(channel, false, &tail);
	next_line(&tail);
	has_str(",\"bytes\":16,\"tensors\":1,\"tag\":\"hello\",\"tag_hex\":"
		"\"68656c6c6f\"}",
		out, "an item as JSON");
	publish(channel, 16, "", 0);
	next_line(&tail);
	ok(out[0] == '{', "and another");
	next_line(&tail);
	is_str("", out, "are as many as were asked for");
	is_int(0, status_of(&tail), "and it is done");
}

/* Who is asleep is not waited for, and told afterwards. */
static void test_missed(tarn_channel *channel)
{
	struct running tail = start("exec \"$TARN\" channel tail run/other");
	unsigned long long missed = 0;
	int status;

	publish_until_seen(channel, false, &tail);
	kill(tail.pid, SIGSTOP);
	waitpid(tail.pid, &status, WUNTRACED);
	for (int i = 0; i < MANY; i++)
		publish(channel, 16, "missed", 6);
	kill(tail.pid, SIGCONT);
	do
		next_line(&tail);
	while (strstr(out, "\"hello\""));
	ok(sscanf(out, "... %llu items went by too fast", &missed) == 1,
		"what was missed is counted: %s", out);
	ok(missed > MANY / 2 && missed < 2 * MANY, "%llu, of %d and more",
		missed, MANY);
	next_line(&tail);
	has_str("\"missed\"", out, "and what is left is shown");
	kill(tail.pid, SIGTERM);
	is_int(0, status_of(&tail), "as long as is wished");
}

/* By the signal, not in the hour that comes next. */
static void test_signals(tarn_channel *channel)
{
	static const char *const lines[] = {
		"exec \"$TARN\" channel tail run/other",
		"exec \"$TARN\" channel stat -w 3600 run/other",
		"exec \"$TARN\" channel top -e 3600",
	};

	for (int i = 0; i < 3; i++) {
		struct running running = start(lines[i]);

		if (i == 0)
			publish_until_seen(channel, false, &running);
		next_line(&running);
		/* The shell has become the command. */
		kill(running.pid, i ? SIGINT : SIGTERM);
		is_int(0, status_of(&running), "a signal ends: %s", lines[i]);
	}
}

static void test_end(tarn_channel *channel)
{
	tarn_item *item;

	tarn_channel_unref(make("run/gone", TARN_CHANNEL_QUEUE));
	publish(channel, 10, "last", 4);
	is_int(1, run("channel close run/other run/nothing"),
		"close of one that there is, and one that is not");
	has_str("nothing", out, "names that");
	is_int(-EPIPE, tarn_channel_receive(channel, 0, &item),
		"the other is closed");
	is_int(0, run("channel ls run/other"), "its name stays");
	has_str(", closed\n", out, "and says so");
	is_int(0, run("channel stat -w 3600 run/other"),
		"nothing is to be watched any more");
	has_str("; closed\n", out, "and why");
	is_int(0, run("channel tail run/other"), "nor to be seen");
	is_str("", out, "not what was before");
	is_int(0, run("channel rm run/gone"), "rm");
	is_int(0, run("channel ls"), "removes");
	ok(!strstr(out, "run/gone"), "the name");
}

/* Columns of the longest line in out, between its escapes. */
static int longest_line(void)
{
	int columns = 0, longest = 0;

	for (const char *p = out; *p; p++) {
		if (*p == '\x1b') {
			p += strcspn(p, "HJK");
			columns = *p == 'H' ? 0 : columns;
		} else if (*p == '\r' || *p == '\n') {
			columns = 0;
		} else if ((*p & 0xc0) != 0x80) {
			columns++;
		}
		longest = columns > longest ? columns : longest;
		if (!*p)
			break;
	}
	return longest;
}

/* On a terminal of so many columns it is redrawn in place, and fits. */
static void test_terminal(unsigned short columns)
{
	const struct winsize size = {.ws_col = columns, .ws_row = 4};
	int end = posix_openpt(O_RDWR | O_NOCTTY), terminal;
	struct running running;
	char line[600];
	ssize_t n = 0, more;

	if (end < 0 || grantpt(end) < 0 || unlockpt(end) < 0 ||
		(terminal = open(ptsname(end), O_RDWR | O_NOCTTY)) < 0 ||
		ioctl(terminal, TIOCSWINSZ, &size) < 0) {
		skip(5, "there is no pseudo terminal");
		return;
	}
	snprintf(line, sizeof(line),
		"exec \"$TARN\" channel top -n 2 -e 0.1 >%s", ptsname(end));
	running = start(line);
	is_int(0, status_of(&running), "top on a terminal");
	close(terminal);
	while ((more = read(end, out + n, sizeof(out) - 1 - (size_t)n)) > 0)
		n += more;
	out[n] = '\0';
	close(end);
	has_str("\x1b[K\r\n", out, "clears the rest of each line");
	has_str("\x1b[J\x1b[HCHANNEL", out, "and draws over what was there");
	is_int(columns - 1, longest_line(), "in all %d columns but one",
		columns);
	has_str("... and 3 more", out, "and in as many lines as there are");
}

static void test_terminals(void)
{
	tarn_channel *channels[4];
	char name[120];

	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "run/%d/%0*d", i, 20 * i + 1, i);
		channels[i] = make(name, TARN_CHANNEL_QUEUE);
	}
	test_terminal(80);
	test_terminal(100);
	test_terminal(150);
	is_int(0, run("rm run/0/ run/1/ run/2/ run/3/"), "they go");
	for (int i = 0; i < 4; i++)
		tarn_channel_unref(channels[i]);
}

/* A channel that takes another's name is another. */
static void test_anew(void)
{
	const struct tarn_channel_options two = {.slots = 2};
	tarn_channel *old = make("run/anew", TARN_CHANNEL_QUEUE), *new;
	struct running top =
		start("exec \"$TARN\" channel top -e 0.1 run/anew");
	int lines = 0;

	next_line(&top);
	next_line(&top);
	has_str("[....          ]", out, "top shows four slots");
	is_int(0, run("channel rm run/anew"), "they lose their name");
	if (tarn_channel_open(store, "run/anew", &two, &new) < 0)
		bail("anew: %s", tarn_error_message());
	do
		next_line(&top);
	while (!strstr(out, "[..            ]") && ++lines < 600);
	has_str("[..            ]", out, "then the two that have it");
	has_str("     -           - ", out, "without the rate of the others");
	kill(top.pid, SIGTERM);
	is_int(0, status_of(&top), "until it is ended");
	is_int(0, run("channel rm run/anew"), "and removed");
	tarn_channel_unref(new);
	tarn_channel_unref(old);
}

/* The queue's consumer gets what was, after somebody has closed it. */
static void test_close(void)
{
	tarn_channel *channel = make("run/queue", TARN_CHANNEL_QUEUE);
	tarn_slot *slot;
	tarn_item *item;

	publish(channel, 10, "last", 4);
	is_int(0, run("channel close run/queue"), "close with an item in it");
	is_int(-EPIPE, tarn_channel_acquire(channel, 0, &slot),
		"nothing more is published");
	tarn_item_unref(receive(channel));
	is_int(-EPIPE, tarn_channel_receive(channel, 0, &item),
		"but what was is received");
	is_int(0, run("rm run/"), "and the names removed");
	has_str("removed 3 names below run/\n", out, "which tarn rm counts");
	tarn_channel_unref(channel);
}

/* Nobody can join any more, and who only looks on is told so. */
static void test_daemon_gone(tarn_channel *channel)
{
	struct running looking[] = {
		start("exec \"$TARN\" channel tail run/last"),
		start("exec \"$TARN\" channel stat -w 0.1 run/last"),
		start("exec \"$TARN\" channel top -e 0.1"),
	};

	publish_until_seen(channel, false, &looking[0]);
	for (int i = 0; i < 3; i++)
		next_line(&looking[i]);
	is_int(0, daemon_stop(&server), "the daemon ends");
	for (int i = 0; i < 3; i++) {
		size_t n = fread(out, 1, sizeof(out) - 1, looking[i].f);

		out[n] = '\0';
		has_str("tarn: daemon at ", out,
			"who looks on says why it ends");
		is_int(1, status_of(&looking[i]), "and that it failed");
	}
}

int main(void)
{
	tarn_channel *channel, *other, *last;

	if (!getenv("TARN"))
		bail("TARN names no command");
	daemon_start(&server, "channel.sock", NULL);
	setenv("TARN_SOCKET", server.socket, 1);
	if (tarn_store_open(NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	test_nothing();
	channel = make("run/decoded", TARN_CHANNEL_QUEUE);
	test_stat(channel);
	test_other_verbs();
	test_tensor();
	test_tail(channel);
	other = make("run/other", TARN_CHANNEL_BROADCAST);
	test_tail_json(other);
	test_missed(other);
	test_signals(other);
	test_end(other);
	test_close();
	test_terminals();
	test_anew();
	last = make("run/last", TARN_CHANNEL_BROADCAST);
	test_daemon_gone(last);
	tarn_channel_unref(last);
	tarn_channel_unref(other);
	tarn_channel_unref(channel);
	tarn_store_unref(store);
	return done();
}
