/* SPDX-License-Identifier: MIT */
/*
 * Events on stderr, one line each, for people and for programs alike:
 *
 *	tarnd[12]: load_done role=server label="m.st" bytes=42
 *
 * First the event's name, then KEY=VALUE with numbers bare and texts quoted,
 * in which \", \\, \n and \xHH stand for what would end the quotes or the
 * line. Under systemd's journal, which knows the process, the line begins
 * with <PRIORITY> instead. A line is one write, so that lines of several
 * processes never mix.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Those of syslog(3). */
enum log_level {
	LOG_LEVEL_ERROR = 3,   /* something is lost or refused for all */
	LOG_LEVEL_WARNING = 4, /* something is lost or refused for one */
	LOG_LEVEL_INFO = 6,
};

struct log_field {
	const char *key;  /* a-z and _; NULL ends a list of them */
	const char *text; /* NULL: it is a number */
	int64_t number;
	bool large; /* of 64 bits without a sign */
};

static inline struct log_field log_text(const char *key, const char *text)
{
	return (struct log_field) {.key = key, .text = text ? text : ""};
}

static inline struct log_field log_i64(const char *key, int64_t number)
{
	return (struct log_field) {.key = key, .number = number};
}

static inline struct log_field log_u64(const char *key, uint64_t number)
{
	return (struct log_field) {
		.key = key, .number = (int64_t)number, .large = true};
}

/* keeper, server or loader; static. */
void log_role(const char *role);

void log_fields(enum log_level level, const char *event,
	const struct log_field *fields);

/* log_info("load_done", log_text("label", l), log_u64("bytes", n)); the name
 * of an event is of a-z and _. */
#define log_at(level, event, ...)                                              \
	log_fields(level, event,                                               \
		(const struct log_field[]) {__VA_ARGS__ __VA_OPT__(, ) {0}})
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)

/* A sentence that is no event of its own: event "note", field "text". */
void log_event(const char *fmt, ...) _printf_(1, 2);
