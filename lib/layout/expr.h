/* SPDX-License-Identifier: MIT */
/* The state of parsing a view expression: the text, the position, and the
 * layout so far. Shared by the tokenizer (expr.c), indexing and methods. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/layout.h>

#define EXPR_NAME_MAX 64

struct expr {
	const char *text;
	const char *at;
	struct tarn_layout layout;
	bool copied;
	/* After a link that had to copy: the layout whose elements, in C order,
	 * are those of the copy. */
	struct tarn_layout source;
	/* Makes that copy; NULL where only layouts matter. 0 or a failure. */
	int (*copy)(struct expr *e);
	void *arg; /* of copy */
};

/* Applies the whole chain. 1 when something was copied, as tarn_layout_eval. */
int expr_run(struct expr *e);

/* -EINVAL with the text, the column of at, and the problem there. */
int expr_fail(const struct expr *e, const char *at, const char *what);

void expr_skip_blanks(struct expr *e);

/* Is this token next? Then it is consumed. */
bool expr_take(struct expr *e, const char *token);

/* true if there is a number; one that does not fit becomes the nearest that
 * does, and is reported. */
bool expr_take_number(struct expr *e, int64_t *ret, bool *ret_clamped);

/* A name, "" if there is none; longer names are cut. */
void expr_take_name(struct expr *e, char name[EXPR_NAME_MAX]);

/* The same, but anything else is an error. */
int expr_want(struct expr *e, char c);
int expr_want_number(struct expr *e, int64_t *ret);
int expr_want_string(struct expr *e, char *buf, size_t size);

/* Parse what follows "[" and "."; each applies one link of the chain. */
int expr_index(struct expr *e);
int expr_method(struct expr *e);
