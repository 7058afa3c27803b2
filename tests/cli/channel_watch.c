/* SPDX-License-Identifier: MIT */
/*
 * tarn channel tail, top and stat -w: items are shown as they are published,
 * without being taken; what is drawn on a terminal; and what ends the command.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/cli_channel.h"
#include "tests/kit/tap.h"

static tarn_store *store;

#define MANY 1000 /* more than a ring of 4 slots remembers */

/* A watcher does not see what was published before it looked. */
static void publish_until_seen(
	tarn_channel *channel, bool consumed, struct running *by)
{
	struct pollfd p = {.fd = fileno(by->f), .events = POLLIN};
	int items = 0;

	do {
		kit_cli_send(channel, 16, "hello", 5);
		if (consumed)
			tarn_item_unref(kit_channel_receive(channel));
		if (++items > 6000)
			bail("nothing is seen within a minute");
	} while (poll(&p, 1, 10) <= 0);
}

/* ---- tail -------------------------------------------------------------- */

/* On a loaded machine it misses some, and says so. */
static void next_item(struct running *tail)
{
	do
		kit_cli_next_line(tail);
	while (strstr(kit_cli_out, " went by too fast"));
}

static void test_tail(tarn_channel *channel)
{
	struct running tail =
		kit_cli_start("exec \"$TARN\" channel tail run/decoded");

	publish_until_seen(channel, true, &tail);
	kit_cli_send(channel, 2000, "\0\1\377", 3);
	tarn_item_unref(kit_channel_receive(channel));
	kit_cli_send(channel, 3000, "", 0);
	tarn_item_unref(kit_channel_receive(channel));
	next_item(&tail);
	has_str("16 B  1 tensor  \"hello\"", kit_cli_out,
		"tail prints an item as it is published");
	while (strstr(kit_cli_out, "\"hello\""))
		next_item(&tail);
	has_str("1.95 KiB  1 tensor  0x0001ff", kit_cli_out,
		"tail prints a tag that is no text in hexadecimal");
	next_item(&tail);
	has_str("2.93 KiB  1 tensor", kit_cli_out,
		"an item without a tag is shown without one");
	ok(!strstr(kit_cli_out, "0x"),
		"tail prints no 0x for an item without a tag");
	is_int(0, kit_cli_run("channel close run/decoded"),
		"channel close succeeds while tail runs");
	is_int(0, kit_cli_status(&tail),
		"tail ends when the channel is closed");
}

static void test_tail_json(tarn_channel *channel)
{
	struct running tail =
		kit_cli_start("exec \"$TARN\" channel tail -j -n 2 run/other");

	publish_until_seen(channel, false, &tail);
	publish_until_seen(channel, false, &tail);
	kit_cli_next_line(&tail);
	has_str(",\"bytes\":16,\"tensors\":1,\"tag\":\"hello\",\"tag_hex\":"
		"\"68656c6c6f\"}",
		kit_cli_out, "tail --json prints an item as JSON");
	kit_cli_send(channel, 16, "", 0);
	kit_cli_next_line(&tail);
	ok(kit_cli_out[0] == '{', "the second item is shown as JSON");
	kit_cli_next_line(&tail);
	is_str("", kit_cli_out, "tail prints as many items as --count");
	is_int(0, kit_cli_status(&tail),
		"tail ends after the number of items of --count");
}

/* A watcher that sleeps is not waited for, and learns it afterwards. */
static void test_missed(tarn_channel *channel)
{
	struct running tail =
		kit_cli_start("exec \"$TARN\" channel tail run/other");
	unsigned long long missed = 0;
	int status;

	publish_until_seen(channel, false, &tail);
	kill(tail.pid, SIGSTOP);
	waitpid(tail.pid, &status, WUNTRACED);
	for (int i = 0; i < MANY; i++)
		kit_cli_send(channel, 16, "missed", 6);
	kill(tail.pid, SIGCONT);
	/* Some may have been missed before, too, on a loaded machine. */
	do {
		kit_cli_next_line(&tail);
		missed = MANY;
		sscanf(kit_cli_out, "... %llu item", &missed);
	} while (strstr(kit_cli_out, "\"hello\"") || missed <= MANY / 2);
	ok(sscanf(kit_cli_out, "... %llu items went by too fast", &missed) == 1,
		"tail counts the items that it missed: %s", kit_cli_out);
	ok(missed > MANY / 2 && missed < 2 * MANY,
		"tail missed %llu items, of %d and more", missed, MANY);
	kit_cli_next_line(&tail);
	has_str("\"missed\"", kit_cli_out,
		"the count of missed items is shown");
	kill(tail.pid, SIGTERM);
	is_int(0, kit_cli_status(&tail), "tail ends after its time limit");
}

/* ---- terminals --------------------------------------------------------- */

/* Columns of the longest line in kit_cli_out, between its escapes. */
static int longest_line(void)
{
	int columns = 0, longest = 0;

	for (const char *p = kit_cli_out; *p; p++) {
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
	running = kit_cli_start(line);
	is_int(0, kit_cli_status(&running),
		"top on a terminal ends without error");
	close(terminal);
	while ((more = read(end, kit_cli_out + n,
			sizeof(kit_cli_out) - 1 - (size_t)n)) > 0)
		n += more;
	kit_cli_out[n] = '\0';
	close(end);
	has_str("\x1b[K\r\n", kit_cli_out, "top clears the rest of each line");
	has_str("\x1b[J\x1b[HCHANNEL", kit_cli_out,
		"each frame overwrites the one before");
	is_int(columns - 1, longest_line(),
		"top draws all of %d columns but one", columns);
	has_str("... and 3 more", kit_cli_out,
		"channels beyond the terminal's lines are counted");
}

static void test_terminals(void)
{
	tarn_channel *channels[4];
	char name[120];

	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "run/%d/%0*d", i, 20 * i + 1, i);
		channels[i] = kit_cli_make(store, name, TARN_CHANNEL_QUEUE);
	}
	test_terminal(80);
	test_terminal(100);
	test_terminal(150);
	is_int(0, kit_cli_run("rm run/0/ run/1/ run/2/ run/3/"),
		"rm removes the channels");
	for (int i = 0; i < 4; i++)
		tarn_channel_unref(channels[i]);
}

/* ---- what ends it ------------------------------------------------------ */

/* By the signal, not in the hour that comes next. */
static void test_signals(tarn_channel *channel)
{
	static const char *const lines[] = {
		"exec \"$TARN\" channel tail run/other",
		"exec \"$TARN\" channel stat -w 3600 run/other",
		"exec \"$TARN\" channel top -e 3600",
	};

	for (int i = 0; i < 3; i++) {
		struct running running = kit_cli_start(lines[i]);

		if (i == 0)
			publish_until_seen(channel, false, &running);
		kit_cli_next_line(&running);
		/* The shell has become the command. */
		kill(running.pid, i ? SIGINT : SIGTERM);
		is_int(0, kit_cli_status(&running),
			"a signal ends the command and restores the terminal: "
			"%s",
			lines[i]);
	}
}

/* A channel that takes another's name is another. */
static void test_anew(void)
{
	const struct tarn_channel_options two = {.slots = 2};
	tarn_channel *old = kit_cli_make(store, "run/anew", TARN_CHANNEL_QUEUE),
		     *new;
	struct running top =
		kit_cli_start("exec \"$TARN\" channel top -e 0.1 run/anew");
	int lines = 0;

	kit_cli_next_line(&top);
	kit_cli_next_line(&top);
	has_str("[....          ]", kit_cli_out,
		"top draws the four free slots");
	is_int(0, kit_cli_run("channel rm run/anew"),
		"rm removes the name of a watched channel");
	if (tarn_channel_open(store, "run/anew", &two, &new) < 0)
		bail("anew: %s", tarn_error_message());
	do
		kit_cli_next_line(&top);
	while (!strstr(kit_cli_out, "[..            ]") && ++lines < 600);
	has_str("[..            ]", kit_cli_out,
		"top then draws the two slots of the new channel");
	has_str("     -           - ", kit_cli_out,
		"top draws the new channel without the other's rate");
	kill(top.pid, SIGTERM);
	is_int(0, kit_cli_status(&top), "top runs until a signal ends it");
	is_int(0, kit_cli_run("channel rm run/anew"),
		"the channel is removed after watching");
	tarn_channel_unref(new);
	tarn_channel_unref(old);
}

/* Nobody can join any more, and who only looks on is told so. */
static void test_daemon_gone(tarn_channel *channel)
{
	struct running looking[] = {
		kit_cli_start("exec \"$TARN\" channel tail run/last"),
		kit_cli_start("exec \"$TARN\" channel stat -w 0.1 run/last"),
		kit_cli_start("exec \"$TARN\" channel top -e 0.1"),
	};

	publish_until_seen(channel, false, &looking[0]);
	for (int i = 0; i < 3; i++)
		kit_cli_next_line(&looking[i]);
	is_int(0, kit_cli_end_daemon(), "the daemon ends without an error");
	for (int i = 0; i < 3; i++) {
		size_t n = fread(
			kit_cli_out, 1, sizeof(kit_cli_out) - 1, looking[i].f);

		kit_cli_out[n] = '\0';
		has_str("tarn: daemon at ", kit_cli_out,
			"a watching command says why it ends");
		is_int(1, kit_cli_status(&looking[i]),
			"a watching command fails when the daemon ends");
	}
}

int main(void)
{
	tarn_channel *channel, *other, *last;

	store = kit_cli_begin();
	test_terminals();
	test_anew();
	channel = kit_cli_make(store, "run/decoded", TARN_CHANNEL_QUEUE);
	test_tail(channel);
	other = kit_cli_make(store, "run/other", TARN_CHANNEL_BROADCAST);
	test_tail_json(other);
	test_missed(other);
	test_signals(other);
	last = kit_cli_make(store, "run/last", TARN_CHANNEL_BROADCAST);
	test_daemon_gone(last);
	tarn_channel_unref(last);
	tarn_channel_unref(other);
	tarn_channel_unref(channel);
	tarn_store_unref(store);
	return done(46);
}
