/* SPDX-License-Identifier: MIT */
/*
 * tarn view: what a view expression makes of a layout. Drawn for a person, or
 * as JSON, or (--batch) many of them, a line each, so that other programs can
 * ask thousands of questions of one process.
 */
#include "cli/cli.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/layout.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "cli/draw.h"
#include "cli/message.h"
#include "cli/options.h"

static const char about[] =
	"What the view expression EXPR makes of the layout SPEC.\n"
	"\n"
	"  SPEC is a dtype and a shape, and strides and an offset if they are\n"
	"  not the usual ones: F32[2,3,4]  U8[3,4]:(1,3)+5\n"
	"  EXPR is a chain of: [0:4, ::2, -1, ..., None] .permute(2,0,1)\n"
	"  .transpose(0,1) .T .reshape(6,-1) .view(6,4) .flatten(1) .merge(1,2)\n"
	"  .split(1,0,5) .unsqueeze(0) .squeeze() .expand(3,-1) .flip(0)\n"
	"  .narrow(0,2,3) .select(0,1) .skip(0,2) .diagonal(0,0,1)\n"
	"  .unfold(0,3,1) .bitcast(U8) .contiguous()\n"
	"  .rearrange(\"b (h w) -> b h w\", h=2)";

/* ---- JSON ---------------------------------------------------------- */

static json_t *json_numbers(int n, const int64_t *v)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(list, json_integer(v[i]));
	return list;
}

static json_t *json_layout(const struct tarn_layout *l, bool copy)
{
	return json_pack("{s:s, s:o, s:o, s:I, s:I, s:b, s:b}", "dtype",
		tarn_dtype_name(l->dtype), "shape",
		json_numbers(l->ndim, l->shape), "strides",
		json_numbers(l->ndim, l->stride), "offset",
		(json_int_t)l->offset, "numel",
		(json_int_t)tarn_layout_numel(l), "contiguous",
		tarn_layout_is_contiguous(l), "copy", copy);
}

/* The sentence may quote bytes that are not UTF-8. */
static json_t *json_error(const char *sentence)
{
	_cleanup_free_ char *ascii = NULL;
	json_t *object = json_pack("{s:s}", "error", sentence);

	if (object)
		return object;
	ascii = strdup(sentence);
	for (char *p = ascii; p && *p; p++)
		if (*p & 0x80)
			*p = '?';
	return json_pack("{s:s}", "error", ascii ? ascii : "out of memory");
}

static bool print_json(json_t *object)
{
	bool bad = !object || json_dumpf(object, stdout, JSON_COMPACT) < 0;

	json_decref(object);
	return putchar('\n') != EOF && !bad;
}

/* ---- many at once -------------------------------------------------- */

static json_t *answer(char *line)
{
	char *tab = strchr(line, '\t');
	struct tarn_layout l;
	int r;

	if (!tab)
		return json_error("a line is SPEC, a tab and EXPR; this one "
				  "has no tab");
	*tab = '\0';
	r = tarn_layout_parse(line, &l);
	if (r >= 0)
		r = tarn_layout_eval(&l, tab + 1, &l);
	return r < 0 ? json_error(tarn_error_message()) : json_layout(&l, r);
}

static int view_batch(void)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	ssize_t n;

	/* The caller may wait for the answer before it asks again. */
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	while ((n = getline(&line, &size, stdin)) >= 0) {
		if (n && line[n - 1] == '\n')
			line[--n] = '\0';
		if (!print_json(strlen(line) == (size_t)n
					? answer(line)
					: json_error("a line is text; this one "
						     "has a zero byte")))
			break;
	}
	/* main sees to what cannot be written. */
	return ferror(stdin) ? print_failure("the input cannot be read: %m")
			     : EXIT_DONE;
}

/* ---- one, for a person --------------------------------------------- */

/* Where the link of the chain that begins at p ends: behind the bracket that
 * closes its first one. The expression is known to be well-formed. */
static const char *link_end(const char *p)
{
	int depth = 0;
	char quote = '\0';

	for (; *p; p++) {
		if (quote) {
			if (*p == quote)
				quote = '\0';
		} else if (*p == '"' || *p == '\'') {
			quote = *p;
		} else if (*p == '(' || *p == '[') {
			depth++;
		} else if (*p == ')' || *p == ']') {
			if (--depth == 0)
				return p + 1;
		}
	}
	return p;
}

/* The chain again, link by link. Its last copy made the storage that the end
 * of the chain walks through: *ret_storage, or from if nothing was copied. */
static int draw_chain(const struct tarn_layout *from, const char *expr,
	struct tarn_layout *ret_storage)
{
	struct tarn_layout now = *from;
	char text[640];

	*ret_storage = *from;
	tarn_layout_format(from, text, sizeof(text));
	printf("  %-30s %s\n", "", text);
	for (expr += strspn(expr, " \t\n"); *expr;
		expr += strspn(expr, " \t\n")) {
		const char *end = link_end(expr);
		_cleanup_free_ char *link = strndup(expr, end - expr);
		struct tarn_layout next;
		int r;

		r = link ? tarn_layout_eval(&now, link, &next) : -1;
		if (r < 0)
			return r;
		draw_link(&now, link, r, &next);
		if (r > 0)
			*ret_storage = next;
		now = next;
		expr = end;
	}
	return 0;
}

/* How many elements of view's dtype the storage of from has, and how many of
 * them are a row of its shape (0: none are). */
static int64_t storage_size(const struct tarn_layout *from,
	const struct tarn_layout *view, int64_t *ret_row)
{
	int from_bits = tarn_dtype_bits(from->dtype);
	int view_bits = tarn_dtype_bits(view->dtype);
	int64_t first, count;

	tarn_layout_bounds(from, &first, &count);
	*ret_row = from->ndim ? from->shape[from->ndim - 1] : 1;
	if (from_bits == view_bits)
		return first + count;
	*ret_row = 0;
	/* Reach and bits of a layout fit, so this does. */
	return (first + count) * from_bits / view_bits;
}

static int view_one(const char *spec, const char *expr, bool json)
{
	struct tarn_layout from, view, storage;
	int64_t size, row;
	bool copied = false;
	int r;

	r = tarn_layout_parse(spec, &from);
	if (r >= 0)
		r = tarn_layout_eval(&from, expr, &view);
	if (r >= 0 && json)
		return print_json(json_layout(&view, r)) ? EXIT_DONE
							 : EXIT_FAILED;
	if (r >= 0)
		copied = r;
	if (r >= 0)
		r = draw_chain(&from, expr, &storage);
	if (r < 0)
		return print_error();
	draw_summary(&view);
	size = storage_size(&storage, &view, &row);
	draw_walk(&view, size, row, copied);
	return EXIT_DONE;
}

int cmd_view(int argc, char **argv)
{
	bool batch = false, json = false;
	const struct option_row rows[] = {
		OPTION_JSON(&json),
		{.name = "batch",
			.letter = 'b',
			.ret_flag = &batch,
			.help = "read \"SPEC<TAB>EXPR\" lines, print a JSON "
				"object\nfor each: the layout, or "
				"{\"error\": \"...\"}"},
		{0},
	};
	const struct usage usage = {.verb = "view",
		.arguments = "[--json] SPEC EXPR\n--batch",
		.about = about,
		.options = rows,
		.args_max = 2};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	if (batch && n)
		return usage_failed(&usage, "--batch takes no arguments");
	if (!batch && n < 2)
		return usage_failed(&usage, "SPEC and EXPR are needed");
	return batch ? view_batch() : view_one(args[0], args[1], json);
}
