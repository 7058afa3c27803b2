/* SPDX-License-Identifier: MIT */
/* The state of a pickle that is read, for what its classes do. */
#pragma once

#include "lib/file/pickle.h"

/* Containers that are begun within each other; picked, Python has some dozen
 * less than 1,000. */
enum { PICKLE_MARKS_MAX = 1000 };

struct pickle {
	const char *begin, *at, *end;
	struct arena *arena;
	struct pickle_list stack, memo;
	size_t marks[PICKLE_MARKS_MAX];
	size_t n_marks;
};

struct pickle_name {
	const char *text;
	size_t size;
};

/* -EBADMSG, with the place. */
int pickle_damaged(const struct pickle *p, const char *what);
int pickle_no_memory(void);

/* NULL: no memory. */
struct pickle_value *pickle_new(struct pickle *p, enum pickle_kind kind);

/* Which one is it? -ENOTSUP: none that data needs. */
int pickle_global(struct pickle *p, struct pickle_name module,
	struct pickle_name name, int64_t *ret);

/* What that one makes of its arguments. */
int pickle_call(struct pickle *p, int64_t global,
	const struct pickle_list *arguments, struct pickle_value **ret);

/* The storage that a persistent id names. */
int pickle_storage(struct pickle *p, const struct pickle_value *id,
	struct pickle_value **ret);
