// SPDX-License-Identifier: MIT
/*
 * A machine with a stack and a memo, for the opcodes that Python's picklers use
 * for data (protocols 2 to 5). What a class or function would do is known for
 * a dozen of them (pickle_global.c).
 *
 * Source: Lib/pickletools.py of CPython, which documents each opcode.
 */
#include "lib/file/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fail.h"
#include "lib/file/pickle_machine.h"

/* ---- values -------------------------------------------------------------- */

int pickle_damaged(const struct pickle *p, const char *what)
{
	return tarn_fail(EBADMSG, "damaged pickle: %s at byte %zu", what,
		(size_t)(p->at - p->begin));
}

int pickle_no_memory(void)
{
	return tarn_fail(ENOMEM, "no memory for a pickle");
}

static int list_add(
	struct pickle *p, struct pickle_list *list, struct pickle_value *v)
{
	if (list->n == list->room) {
		size_t room = list->room ? 2 * list->room : 4;
		struct pickle_value **at = arena_array(
			p->arena, room, sizeof(struct pickle_value *));

		if (!at)
			return pickle_no_memory();
		if (list->n)
			memcpy(at, list->at, list->n * sizeof(*at));
		list->at = at;
		list->room = room;
	}
	list->at[list->n++] = v;
	return 0;
}

struct pickle_value *pickle_new(struct pickle *p, enum pickle_kind kind)
{
	struct pickle_value *v = arena_array(p->arena, 1, sizeof(*v));

	if (v)
		*v = (struct pickle_value) {.kind = kind};
	return v;
}

/* NULL: there was no memory for it. */
static int push(struct pickle *p, struct pickle_value *v)
{
	if (!v)
		return pickle_no_memory();
	return list_add(p, &p->stack, v);
}

static int push_number(struct pickle *p, enum pickle_kind kind, int64_t number)
{
	struct pickle_value *v = pickle_new(p, kind);

	if (v)
		v->number = number;
	return push(p, v);
}

static int push_text(struct pickle *p, const char *text, size_t size)
{
	struct pickle_value *v = pickle_new(p, PICKLE_TEXT);

	if (v) {
		v->text = text;
		v->size = size;
	}
	return push(p, v);
}

/* The values above the last mark, or above n of them. */
static size_t floor_of(const struct pickle *p)
{
	return p->n_marks ? p->marks[p->n_marks - 1] : 0;
}

static struct pickle_value *pop(struct pickle *p)
{
	return p->stack.n > floor_of(p) ? p->stack.at[--p->stack.n] : NULL;
}

static struct pickle_value *top(const struct pickle *p)
{
	return p->stack.n > floor_of(p) ? p->stack.at[p->stack.n - 1] : NULL;
}

static int mark(struct pickle *p)
{
	if (p->n_marks == PICKLE_MARKS_MAX)
		return pickle_damaged(p, "too many containers in each other");
	p->marks[p->n_marks++] = p->stack.n;
	return 0;
}

/* Ends the last mark: where the values above it begin. */
static int unmark(struct pickle *p, size_t *ret)
{
	if (!p->n_marks)
		return pickle_damaged(p, "no mark");
	*ret = p->marks[--p->n_marks];
	return 0;
}

/* Values from the stack's begin-th on become a list. */
static int collect(struct pickle *p, size_t begin, enum pickle_kind kind)
{
	struct pickle_value *v = pickle_new(p, kind);
	int r = v ? 0 : pickle_no_memory();

	if (p->stack.n < begin || begin < floor_of(p))
		return pickle_damaged(p, "too few values");
	for (size_t i = begin; r >= 0 && i < p->stack.n; i++)
		r = list_add(p, &v->list, p->stack.at[i]);
	p->stack.n = begin;
	return r < 0 ? r : push(p, v);
}

static int collect_last(struct pickle *p, size_t n)
{
	if (p->stack.n < n)
		return pickle_damaged(p, "too few values");
	return collect(p, p->stack.n - n, PICKLE_LIST);
}

/* Adds the values from begin on to the container below them. */
static int extend(struct pickle *p, size_t begin, enum pickle_kind kind)
{
	struct pickle_value *v;
	int r = 0;

	if (begin <= floor_of(p) || p->stack.n < begin)
		return pickle_damaged(p, "no container");
	v = p->stack.at[begin - 1];
	if (v->kind != kind ||
		(kind == PICKLE_DICT && (p->stack.n - begin) % 2))
		return pickle_damaged(p, "values for another container");
	for (size_t i = begin; r >= 0 && i < p->stack.n; i++)
		r = list_add(p, &v->list, p->stack.at[i]);
	p->stack.n = begin;
	return r;
}

static int extend_last(struct pickle *p, size_t n, enum pickle_kind kind)
{
	if (p->stack.n < n)
		return pickle_damaged(p, "too few values");
	return extend(p, p->stack.n - n, kind);
}

/* ---- the memo ------------------------------------------------------------ */

/* Picklers number what they remember in turn. */
static int remember(struct pickle *p, uint64_t i)
{
	struct pickle_value *v = top(p);

	if (!v || i > p->memo.n)
		return pickle_damaged(p, "nothing to remember, or out of turn");
	if (i == p->memo.n)
		return list_add(p, &p->memo, v);
	p->memo.at[i] = v;
	return 0;
}

static int recall(struct pickle *p, uint64_t i)
{
	if (i >= p->memo.n)
		return pickle_damaged(p, "a value that was not remembered");
	return push(p, p->memo.at[i]);
}

/* ---- bytes --------------------------------------------------------------- */

static int take(struct pickle *p, uint64_t n, const char **ret)
{
	if (n > (uint64_t)(p->end - p->at))
		return pickle_damaged(p, "it ends too early,");
	*ret = p->at;
	p->at += n;
	return 0;
}

/* A number of n bytes, little-endian and without a sign. */
static int take_number(struct pickle *p, unsigned n, uint64_t *ret)
{
	const char *bytes = NULL;
	int r = take(p, n, &bytes);

	*ret = 0;
	for (unsigned i = 0; r >= 0 && i < n; i++)
		*ret |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
	return r;
}

static int take_line(struct pickle *p, struct pickle_name *ret)
{
	const char *end = memchr(p->at, '\n', (size_t)(p->end - p->at));

	if (!end)
		return pickle_damaged(p, "a line without an end");
	ret->text = p->at;
	ret->size = (size_t)(end - p->at);
	p->at = end + 1;
	return 0;
}

/* A text behind its length of n bytes. */
static int load_text(struct pickle *p, unsigned n)
{
	const char *text = NULL;
	uint64_t size;
	int r = take_number(p, n, &size);

	if (r >= 0)
		r = take(p, size, &text);
	return r < 0 ? r : push_text(p, text, size);
}

/* An integer of up to 255 bytes; what has more than 8 is no size, and is told
 * by its bytes. */
static int load_long(struct pickle *p)
{
	const char *bytes = NULL;
	uint64_t n, value = 0;
	int r = take_number(p, 1, &n);

	if (r >= 0)
		r = take(p, n, &bytes);
	if (r < 0)
		return r;
	if (n > 8)
		return push_text(p, "(a large integer)", 17);
	for (uint64_t i = 0; i < 8; i++) {
		bool negative = n && (unsigned char)bytes[n - 1] >> 7;
		uint64_t byte = i < n      ? (unsigned char)bytes[i]
				: negative ? 0xff
					   : 0;

		value |= byte << (8 * i);
	}
	return push_number(p, PICKLE_INT, (int64_t)value);
}

/* Big-endian, as nothing else here. */
static int load_real(struct pickle *p)
{
	uint64_t bits;
	struct pickle_value *v;
	int r = take_number(p, 8, &bits);

	if (r < 0)
		return r;
	v = pickle_new(p, PICKLE_REAL);
	if (v) {
		bits = __builtin_bswap64(bits);
		memcpy(&v->real, &bits, sizeof(bits));
	}
	return push(p, v);
}

static int load_int(struct pickle *p, unsigned n)
{
	uint64_t value;
	int r = take_number(p, n, &value);

	/* That of four bytes has a sign. */
	return r < 0 ? r
		     : push_number(p, PICKLE_INT,
			       n == 4 ? (int32_t)value : (int64_t)value);
}

/* ---- classes and functions ----------------------------------------------- */

static int load_global(struct pickle *p)
{
	struct pickle_name module = {0}, name = {0};
	int64_t found;
	int r = take_line(p, &module);

	if (r >= 0)
		r = take_line(p, &name);
	if (r >= 0)
		r = pickle_global(p, module, name, &found);
	return r < 0 ? r : push_number(p, PICKLE_GLOBAL, found);
}

static int load_stack_global(struct pickle *p)
{
	const struct pickle_value *name = pop(p), *module = pop(p);
	int64_t found;
	int r;

	if (!module || module->kind != PICKLE_TEXT || name->kind != PICKLE_TEXT)
		return pickle_damaged(p, "a class without a name");
	r = pickle_global(p, (struct pickle_name) {module->text, module->size},
		(struct pickle_name) {name->text, name->size}, &found);
	return r < 0 ? r : push_number(p, PICKLE_GLOBAL, found);
}

static int load_call(struct pickle *p)
{
	const struct pickle_value *arguments = pop(p), *global = pop(p);
	struct pickle_value *v = NULL;
	int r;

	if (!global || global->kind != PICKLE_GLOBAL ||
		arguments->kind != PICKLE_LIST)
		return pickle_damaged(p, "a call without a function");
	r = pickle_call(p, global->number, &arguments->list, &v);
	return r < 0 ? r : push(p, v);
}

static int load_persistent(struct pickle *p)
{
	const struct pickle_value *id = pop(p);
	struct pickle_value *v = NULL;
	int r;

	if (!id)
		return pickle_damaged(p, "no name of a storage");
	r = pickle_storage(p, id, &v);
	return r < 0 ? r : push(p, v);
}

/* The attributes of an object: those of dicts (a module's _metadata) and of
 * tensors are left out; nothing else has any. */
static int load_attributes(struct pickle *p)
{
	const struct pickle_value *state = pop(p), *object = top(p);

	if (!state || !object ||
		(object->kind != PICKLE_DICT && object->kind != PICKLE_TENSOR))
		return pickle_damaged(p, "attributes of what has none");
	return 0;
}

/* ---- opcodes ------------------------------------------------------------- */

static int load_more(struct pickle *p, unsigned char code);

static int load(struct pickle *p, unsigned char code)
{
	uint64_t n = 0;
	size_t begin = 0;
	int r = 0;

	switch (code) {
	case '(':
		return mark(p);
	case ')':
		return collect(p, p->stack.n, PICKLE_LIST);
	case ']':
	case 0x8f: /* a set */
		return push(p, pickle_new(p, PICKLE_LIST));
	case '}':
		return push(p, pickle_new(p, PICKLE_DICT));
	case 't':
	case 'l':
	case 0x91: /* a frozenset */
		r = unmark(p, &begin);
		return r < 0 ? r : collect(p, begin, PICKLE_LIST);
	case 0x85:
	case 0x86:
	case 0x87:
		return collect_last(p, code - 0x84u);
	case 'a':
		return extend_last(p, 1, PICKLE_LIST);
	case 's':
		return extend_last(p, 2, PICKLE_DICT);
	case 'e':
	case 0x90: /* into a set */
		r = unmark(p, &begin);
		return r < 0 ? r : extend(p, begin, PICKLE_LIST);
	case 'u':
		r = unmark(p, &begin);
		return r < 0 ? r : extend(p, begin, PICKLE_DICT);
	case 'q':
	case 'r':
		r = take_number(p, code == 'q' ? 1 : 4, &n);
		return r < 0 ? r : remember(p, n);
	case 0x94:
		return remember(p, p->memo.n);
	case 'h':
	case 'j':
		r = take_number(p, code == 'h' ? 1 : 4, &n);
		return r < 0 ? r : recall(p, n);
	default:
		return load_more(p, code);
	}
}

static int load_more(struct pickle *p, unsigned char code)
{
	const char *ignored;
	uint64_t n;
	int r;

	switch (code) {
	case 'N':
		return push(p, pickle_new(p, PICKLE_NONE));
	case 0x88:
	case 0x89:
		return push_number(p, PICKLE_BOOL, code == 0x88);
	case 'K':
		return load_int(p, 1);
	case 'M':
		return load_int(p, 2);
	case 'J':
		return load_int(p, 4);
	case 0x8a:
		return load_long(p);
	case 'G':
		return load_real(p);
	case 0x8c:
	case 'U':
	case 'C':
		return load_text(p, 1);
	case 'X':
	case 'T':
	case 'B':
		return load_text(p, 4);
	case 0x8d:
	case 0x8e:
		return load_text(p, 8);
	case 'c':
		return load_global(p);
	case 0x93:
		return load_stack_global(p);
	case 'R':
	case 0x81:
		return load_call(p);
	case 'Q':
		return load_persistent(p);
	case 'b':
		return load_attributes(p);
	case '0':
		return pop(p) ? 0 : pickle_damaged(p, "no value to drop");
	case 0x80:
		r = take_number(p, 1, &n);
		return r < 0 || n <= 5 ? r
				       : pickle_damaged(p, "a later protocol");
	case 0x95: /* a frame says how many bytes follow */
		return take(p, 8, &ignored);
	default:
		return tarn_fail(ENOTSUP,
			"the pickle has opcode 0x%02x at byte %zu, which no "
			"data needs",
			code, (size_t)(p->at - 1 - p->begin));
	}
}

int pickle_read(const char *bytes, size_t size, struct arena *arena,
	const struct pickle_value **ret)
{
	struct pickle p = {.begin = bytes,
		.at = bytes,
		.end = bytes + size,
		.arena = arena};
	int r = 0;

	while (r >= 0 && p.at < p.end) {
		unsigned char code = (unsigned char)*p.at++;

		if (code == '.') {
			if (p.stack.n != 1 || p.n_marks)
				return pickle_damaged(&p, "values are left");
			*ret = p.stack.at[0];
			return 0;
		}
		r = load(&p, code);
	}
	return r < 0 ? r : pickle_damaged(&p, "it does not end,");
}
