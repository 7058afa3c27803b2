/* SPDX-License-Identifier: MIT */
/* See save.h. */
#include "tests/kit/save.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/tap.h"

const char *in(const char *name)
{
	static char paths[4][4096];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", test_tmpdir(), name);
	return path;
}

tarn_tensor *made(int dtype, int ndim, const int64_t *shape, unsigned seed)
{
	tarn_tensor *t;
	unsigned char *bytes;
	uint64_t size;

	if (tarn_tensor_zeros(dtype, ndim, shape, &t) < 0)
		bail("%s", tarn_error_message());
	bytes = tarn_storage_data(tarn_tensor_storage(t));
	size = tarn_storage_size(tarn_tensor_storage(t));
	for (uint64_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)((i * 2654435761u + seed) >> 7);
	return t;
}

tarn_tensor *viewed(tarn_tensor *tensor, const char *expr)
{
	tarn_tensor *view;

	if (tarn_tensor_eval(tensor, expr, &view) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(tensor);
	return view;
}

void drop(struct tarn_save_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		tarn_tensor_unref((tarn_tensor *)items[i].tensor);
}

/* Elements in C order. */
static unsigned char *ravelled(const tarn_tensor *t, uint64_t *ret_size)
{
	unsigned char *bytes;

	*ret_size = (uint64_t)tarn_layout_nbytes(tarn_tensor_layout(t));
	/* Set, since valgrind does not see what io_uring reads. */
	bytes = calloc(1, *ret_size + 1);
	if (!bytes || tarn_tensor_ravel(t, TARN_ORDER_C, bytes, *ret_size) < 0)
		bail("%s", tarn_error_message());
	return bytes;
}

static bool same(const tarn_tensor *a, const tarn_tensor *b)
{
	const struct tarn_layout *x = tarn_tensor_layout(a);
	const struct tarn_layout *y = tarn_tensor_layout(b);
	unsigned char *one, *two;
	uint64_t n, m;
	bool yes;

	if (x->dtype != y->dtype || x->ndim != y->ndim ||
		memcmp(x->shape, y->shape, x->ndim * sizeof(*x->shape)))
		return false;
	one = ravelled(a, &n);
	two = ravelled(b, &m);
	yes = n == m && !memcmp(one, two, n);
	free(one);
	free(two);
	return yes;
}

bool holds(const char *path, const struct tarn_save_item *items, size_t n,
	const char *what)
{
	tarn_file *file = NULL;
	bool good = true;

	if (tarn_file_open(path, &file) < 0)
		return ok(false, "%s: %s", what, tarn_error_message());
	if (tarn_file_count(file) != n)
		good = ok(false, "%s: the file has %zu tensors", what,
			tarn_file_count(file));
	for (size_t i = 0; good && i < n; i++) {
		const char *name =
			n == 1 ? tarn_file_at(file, 0)->name : items[i].name;
		tarn_tensor *t = NULL;

		if (tarn_file_tensor(file, name, &t) < 0)
			good = ok(false, "%s: %s", what, tarn_error_message());
		else if (!same(items[i].tensor, t))
			good = ok(false,
				"%s: tensor '%s' has the same elements", what,
				name);
		tarn_tensor_unref(t);
	}
	tarn_file_unref(file);
	return good && ok(true, "%s", what);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *listing(void)
{
	static char seen[4096];
	DIR *d = opendir(test_tmpdir());
	size_t n = 0, used = 0;
	struct dirent *e;
	char *names[64];

	while (d && (e = readdir(d)) && n < 64)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			names[n++] = strdup(e->d_name);
	closedir(d);
	if (n)
		qsort(names, n, sizeof(*names), by_name);
	seen[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		used += (size_t)snprintf(seen + used, sizeof(seen) - used,
			"%s%s", i ? " " : "", names[i]);
		free(names[i]);
	}
	return seen;
}

void clear_folder(void)
{
	char names[4096], *save = NULL;

	snprintf(names, sizeof(names), "%s", listing());
	for (char *name = strtok_r(names, " ", &save); name;
		name = strtok_r(NULL, " ", &save))
		unlink(in(name));
}

void is_refused(int wanted, const char *words, int seen, const char *what)
{
	is_int(wanted, seen, "a save is refused: %s", what);
	has_str(words, tarn_error_message(),
		"%s: the error contains the expected words", what);
	is_str("", listing(), "%s: the refused save leaves no file", what);
}
