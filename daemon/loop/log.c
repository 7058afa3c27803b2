/* SPDX-License-Identifier: MIT */
/*
 * One event is one line and one write; a line is dropped if writing it would
 * block: a terminal that was stopped with ^S, or a pipe with a reader that
 * hangs, must not stop a daemon on which many processes depend.
 */
#include "daemon/loop/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Below the page that a ready pipe takes in one piece. */
#define LINE_MAX_BYTES 2048

static const char *log_who = "keeper";

void log_role(const char *role)
{
	log_who = role;
}

/* ---- a line ----------------------------------------------------------- */

/* Room for the newline, and for the quote of a text that was cut. */
#define LINE_END 2

struct line {
	char bytes[LINE_MAX_BYTES];
	size_t n;
};

/* All of it or nothing: half an escape would change what follows. */
static bool put(struct line *line, const char *s, size_t n)
{
	if (n > sizeof(line->bytes) - LINE_END - line->n)
		return false;
	memcpy(line->bytes + line->n, s, n);
	line->n += n;
	return true;
}

static bool put_string(struct line *line, const char *s)
{
	return put(line, s, strlen(s));
}

/* The bytes of one character of UTF-8 that is no control character; 0. */
static size_t character(const unsigned char *s)
{
	size_t n = s[0] < 0x80   ? 1
		   : s[0] < 0xc2 ? 0
		   : s[0] < 0xe0 ? 2
		   : s[0] < 0xf0 ? 3
		   : s[0] < 0xf5 ? 4
				 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if (n == 1 && (s[0] < ' ' || s[0] == 127))
		return 0;
	/* U+0080 to U+009F move cursors, too. */
	return n == 2 && s[0] == 0xc2 && s[1] < 0xa0 ? 0 : n;
}

static void put_quoted(struct line *line, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	bool fits = put(line, "\"", 1);

	if (!fits)
		return;
	while (*s && fits) {
		size_t n = character(s);
		char escape[5];

		if (*s == '"' || *s == '\\')
			fits = put(line, *s == '"' ? "\\\"" : "\\\\", 2);
		else if (*s == '\n')
			fits = put(line, "\\n", 2);
		else if (n)
			fits = put(line, (const char *)s, n);
		else
			fits = put(line, escape,
				(size_t)snprintf(
					escape, sizeof(escape), "\\x%02x", *s));
		s += n ? n : 1;
	}
	line->bytes[line->n++] = '"'; /* in LINE_END */
}

static void put_field(struct line *line, const struct log_field *field)
{
	char number[24];

	/* A key without its value would make no sense. */
	if (line->n + strlen(field->key) + sizeof(number) + LINE_END + 4 >
		sizeof(line->bytes))
		return;
	put(line, " ", 1);
	put_string(line, field->key);
	put(line, "=", 1);
	if (field->text)
		return put_quoted(line, field->text);
	if (field->large)
		snprintf(number, sizeof(number), "%" PRIu64,
			(uint64_t)field->number);
	else
		snprintf(number, sizeof(number), "%" PRId64, field->number);
	put_string(line, number);
}

/* ---- where it goes ---------------------------------------------------- */

/* Is stderr the journal itself? JOURNAL_STREAM identifies its socket. */
static bool to_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev &&
	       st.st_ino == ino;
}

static void begin(struct line *line, enum log_level level, const char *event)
{
	char head[32];

	if (to_journal())
		snprintf(head, sizeof(head), "<%d>", (int)level);
	else
		snprintf(head, sizeof(head), "tarnd[%d]: ", (int)getpid());
	line->n = 0;
	put_string(line, head);
	put_string(line, event);
	put_string(line, " role=");
	put_string(line, log_who);
}

void log_fields(
	enum log_level level, const char *event, const struct log_field *fields)
{
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
	struct line line;

	begin(&line, level, event);
	for (; fields->key; fields++)
		put_field(&line, fields);
	line.bytes[line.n++] = '\n';
	/* A pipe that is ready takes a page, which is more than a line. */
	if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
		return;
	if (write(STDERR_FILENO, line.bytes, line.n) < 0)
		return; /* there is no reader left */
}

void log_event(const char *fmt, ...)
{
	char text[LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_info("note", log_text("text", text));
}
