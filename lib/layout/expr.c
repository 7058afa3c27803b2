// SPDX-License-Identifier: MIT
/*
 * View expressions: "[0:4, ::2].permute(1,0).reshape(6,-1)".
 *
 * The text is walked once, from left to right, and every link of the chain is
 * applied as soon as it is read; so an error is either about the text, and then
 * names the column, or it is the operation's own sentence. This file has the
 * tokens and the chain; its links are in expr_index.c and expr_method.c.
 */
#include "lib/layout/expr.h"
#include "lib/layout/layout.h"

#include <ctype.h>

int expr_fail(const struct expr *e, const char *at, const char *what)
{
	if (*at == '\0')
		return tarn_fail(EINVAL,
			"expression \"%.400s\": column %d: %s, found the "
			"end",
			e->text, (int)(at - e->text) + 1, what);
	return tarn_fail(EINVAL, "expression \"%.400s\": column %d: %s",
		e->text, (int)(at - e->text) + 1, what);
}

/* ---- the tokenizer ------------------------------------------------- */

void expr_skip_blanks(struct expr *e)
{
	while (isspace((unsigned char)*e->at))
		e->at++;
}

bool expr_take(struct expr *e, const char *token)
{
	size_t n = strlen(token);

	expr_skip_blanks(e);
	if (strncmp(e->at, token, n) != 0)
		return false;
	e->at += n;
	return true;
}

int expr_want(struct expr *e, char c)
{
	char token[] = {c, '\0'};
	char what[] = "expected '?'";

	if (expr_take(e, token))
		return 0;
	what[strlen(what) - 2] = c;
	return expr_fail(e, e->at, what);
}

bool expr_take_number(struct expr *e, int64_t *ret, bool *ret_clamped)
{
	bool negative;
	int64_t n = 0;
	const char *p;

	expr_skip_blanks(e);
	p = e->at;
	negative = *p == '-';
	if (*p == '-' || *p == '+')
		p++;
	if (!isdigit((unsigned char)*p))
		return false;
	*ret_clamped = false;
	for (; isdigit((unsigned char)*p); p++)
		if (mul_i64(n, 10, &n) || add_i64(n, *p - '0', &n)) {
			*ret_clamped = true;
			n = INT64_MAX;
			while (isdigit((unsigned char)p[1]))
				p++;
		}
	e->at = p;
	*ret = negative ? -n : n;
	return true;
}

int expr_want_number(struct expr *e, int64_t *ret)
{
	const char *at;
	bool clamped;

	expr_skip_blanks(e);
	at = e->at;
	if (!expr_take_number(e, ret, &clamped))
		return expr_fail(e, at, "expected a whole number");
	if (clamped)
		return tarn_fail(EOVERFLOW,
			"expression \"%.400s\": column %d: the number does "
			"not fit in 64 bits",
			e->text, (int)(at - e->text) + 1);
	return 0;
}

void expr_take_name(struct expr *e, char name[EXPR_NAME_MAX])
{
	size_t n = 0;

	expr_skip_blanks(e);
	while (isalnum((unsigned char)*e->at) || *e->at == '_') {
		if (n < EXPR_NAME_MAX - 1)
			name[n++] = *e->at;
		e->at++;
	}
	name[n] = '\0';
}

int expr_want_string(struct expr *e, char *buf, size_t size)
{
	const char *begin, *end;
	char quote;

	expr_skip_blanks(e);
	quote = *e->at;
	if (quote != '"' && quote != '\'')
		return expr_fail(e, e->at, "expected a text in quotes");
	begin = e->at + 1;
	end = strchr(begin, quote);
	if (!end)
		return expr_fail(e, e->at, "this quote is not closed");
	if ((size_t)(end - begin) >= size)
		return expr_fail(e, e->at, "this text is too long");
	memcpy(buf, begin, end - begin);
	buf[end - begin] = '\0';
	e->at = end + 1;
	return 0;
}

/* ---- the chain ----------------------------------------------------- */

static int expr_link(struct expr *e)
{
	int r;

	e->source = e->layout;
	if (expr_take(e, "["))
		r = expr_index(e);
	else if (expr_take(e, "."))
		r = expr_method(e);
	else
		r = expr_fail(e, e->at, "expected '[' or '.'");
	if (r <= 0)
		return r;
	e->copied = true;
	return e->copy ? e->copy(e) : 0;
}

int expr_run(struct expr *e)
{
	for (expr_skip_blanks(e); *e->at; expr_skip_blanks(e)) {
		int r = expr_link(e);

		if (r < 0)
			return r;
	}
	return e->copied;
}

int tarn_layout_eval(const struct tarn_layout *layout, const char *expr,
	struct tarn_layout *ret)
{
	struct expr e = {.text = expr, .at = expr, .layout = *layout};
	int r = expr_run(&e);

	if (r >= 0)
		*ret = e.layout;
	return r;
}
