// SPDX-License-Identifier: MIT
/* Names, and their places in a module: arrays in the natural order, which are
 * searched by halving. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ops/nn/tree.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static size_t run_of_digits(const char *text, size_t size)
{
	size_t n = 0;

	while (n < size && is_digit(text[n]))
		n++;
	return n;
}

/* Two runs of digits as numbers, of any length; equal numbers by how many
 * zeros they begin with, so that it is an order of names. */
static int digits_order(
	const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t a_zeros = 0, b_zeros = 0;
	int order;

	while (a_zeros + 1 < a_size && a[a_zeros] == '0')
		a_zeros++;
	while (b_zeros + 1 < b_size && b[b_zeros] == '0')
		b_zeros++;
	if (a_size - a_zeros != b_size - b_zeros)
		return a_size - a_zeros < b_size - b_zeros ? -1 : 1;
	order = memcmp(a + a_zeros, b + b_zeros, a_size - a_zeros);
	if (order != 0)
		return order;
	return (a_zeros > b_zeros) - (a_zeros < b_zeros);
}

/* A dot is before all others: a module's names are together in the order of
 * paths. */
static int byte_order(char a, char b)
{
	if (a == '.' || b == '.')
		return a == '.' ? -1 : 1;
	return (unsigned char)a < (unsigned char)b ? -1 : 1;
}

int natural_order(const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t i = 0, j = 0;

	while (i < a_size && j < b_size) {
		size_t m = run_of_digits(a + i, a_size - i), n;
		int order;

		if (!m || !is_digit(b[j])) {
			if (a[i] != b[j])
				return byte_order(a[i], b[j]);
			i++;
			j++;
			continue;
		}
		n = run_of_digits(b + j, b_size - j);
		order = digits_order(a + i, m, b + j, n);
		if (order != 0)
			return order;
		i += m;
		j += n;
	}
	return (i < a_size) - (j < b_size);
}

/* ---- places in a module ------------------------------------------------- */

/* Where a name is in an array of modules or parameters, or belongs. */
static size_t place_in(const void *array, size_t n, const char *name,
	size_t size, bool *ret_there)
{
	const void *const *all = array;
	size_t low = 0, high = n;

	*ret_there = false;
	while (low < high && !*ret_there) {
		size_t i = low + (high - low) / 2;
		const struct named *other = all[i];
		int order = natural_order(
			name, size, other->name, strlen(other->name));

		*ret_there = order == 0;
		if (order <= 0)
			high = i;
		else
			low = i + 1;
	}
	return high;
}

static tarn_module *child_of(
	const tarn_module *m, const char *name, size_t size)
{
	bool there;
	size_t i = place_in(m->children, m->n_children, name, size, &there);

	return there ? m->children[i] : NULL;
}

static tarn_parameter *tensor_of(
	const tarn_module *m, const char *name, size_t size)
{
	bool there;
	size_t i = place_in(m->tensors, m->n_tensors, name, size, &there);

	return there ? m->tensors[i] : NULL;
}

/* Room for one more in an array of n pointers: it grows by doubling. */
static int make_room(void *array, size_t n)
{
	void **old = *(void ***)array, **more;

	if (n & (n - 1))
		return 0;
	more = reallocarray(old, n ? 2 * n : 1, sizeof(*more));
	if (!more)
		return tree_no_memory();
	*(void ***)array = more;
	return 0;
}

/* Puts what has that name into an array of a module, which has room. */
static void insert(void *array, size_t *n, struct named *what)
{
	void **all = *(void ***)array;
	bool there;
	size_t at = place_in(all, *n, what->name, strlen(what->name), &there);

	memmove(all + at + 1, all + at, (*n - at) * sizeof(*all));
	all[at] = what;
	++*n;
}

/* ---- paths -------------------------------------------------------------- */

static size_t first_name(const char *path)
{
	return strcspn(path, ".");
}

/* A path that begins with a name of m and ends at one; depth counts those of
 * the module's own path too. */
static int check_path(const tarn_module *m, const char *path)
{
	size_t depth = 1, size = strlen(m->named.path) + 1 + strlen(path);

	if (size > TARN_NAME_MAX)
		return tarn_error_set(ENAMETOOLONG,
			"'%.40s...' has more than %d bytes as a path", path,
			TARN_NAME_MAX);
	for (const char *name = path;; name++, depth++) {
		size_t n = first_name(name);

		if (!n)
			return tarn_error_set(
				EINVAL, "'%.80s' has an empty name", path);
		name += n;
		if (!*name)
			break;
	}
	for (; m->parent; m = m->parent)
		depth++;
	if (depth > TARN_MODULE_DEPTH_MAX)
		return tarn_error_set(E2BIG,
			"'%.80s' would be %zu names deep; a tree can have %d",
			path, depth, TARN_MODULE_DEPTH_MAX);
	return 0;
}

/* The modules on the way must be none of them tensors. */
static int check_way(const tarn_module *m, const char *path)
{
	for (const char *name = path; m;) {
		size_t n = first_name(name);

		if (!name[n])
			return 0;
		if (tensor_of(m, name, n))
			return tarn_error_set(EINVAL,
				"'%.*s' is a tensor, so there cannot be "
				"'%.80s'",
				(int)MIN((size_t)(name - path) + n, 80), path,
				path);
		m = child_of(m, name, n);
		name += n + 1;
	}
	return 0;
}

static int name_it(
	const tarn_module *m, const char *name, size_t n, struct named *ret)
{
	size_t size = strlen(m->named.path);

	if (asprintf(&ret->path, "%s%s%.*s", m->named.path, size ? "." : "",
		    (int)n, name) < 0) {
		ret->path = NULL;
		return tree_no_memory();
	}
	ret->name = ret->path + size + (size ? 1 : 0);
	return 0;
}

static int add_child(
	tarn_module *m, const char *name, size_t n, tarn_module **ret)
{
	_cleanup_free_ tarn_module *child = NULL;
	int r = 0;

	*ret = child_of(m, name, n);
	if (*ret)
		return 0;
	child = calloc(1, sizeof(*child));
	r = child ? make_room(&m->children, m->n_children) : tree_no_memory();
	if (r >= 0)
		r = name_it(m, name, n, &child->named);
	if (r < 0)
		return r;
	child->tree = m->tree;
	child->parent = m;
	*ret = child;
	insert(&m->children, &m->n_children, &child->named);
	child = NULL;
	return 0;
}

/* The module in which the last name of a path is, made where it is not there;
 * path is then that name. */
static int make_way(tarn_module **m, const char **path)
{
	int r = check_path(*m, *path);

	if (r >= 0)
		r = check_way(*m, *path);
	while (r >= 0) {
		size_t n = first_name(*path);

		if (!(*path)[n])
			return 0;
		r = add_child(*m, *path, n, m);
		*path += n + 1;
	}
	return r;
}

int tarn_module_add_child(tarn_module *m, const char *path, tarn_module **ret)
{
	tarn_module *child;
	int r = make_way(&m, &path);

	if (r >= 0 && tensor_of(m, path, strlen(path)))
		r = tarn_error_set(EEXIST, "'%.80s' is a tensor already", path);
	if (r >= 0)
		r = add_child(m, path, strlen(path), &child);
	if (r >= 0 && ret)
		*ret = child;
	return r;
}

static int add_tensor(tarn_module *m, const char *name,
	const struct tarn_layout *layout, bool buffer, tarn_parameter **ret)
{
	_cleanup_free_ tarn_parameter *p = calloc(1, sizeof(*p));
	struct tree *tree = m->tree;
	int r = p ? make_room(&m->tensors, m->n_tensors) : tree_no_memory();

	if (r >= 0)
		r = make_room(&tree->parameters, tree->n);
	if (r >= 0)
		r = name_it(m, name, strlen(name), &p->named);
	if (r < 0)
		return r;
	p->module = m;
	p->slot = tree->n;
	p->layout = *layout;
	p->buffer = buffer;
	atomic_init(&p->trainable, !buffer);
	*ret = p;
	insert(&m->tensors, &m->n_tensors, &p->named);
	tree->parameters[tree->n++] = STEAL(p);
	return 0;
}

int tree_add(tarn_module *m, const char *path, const struct tarn_layout *layout,
	bool buffer, tarn_parameter **ret)
{
	const char *name = path;
	int r = make_way(&m, &name);

	if (r < 0)
		return r;
	if (tensor_of(m, name, strlen(name)) || child_of(m, name, strlen(name)))
		return tarn_error_set(EEXIST,
			"'%.80s' is a tensor or a module already", path);
	return add_tensor(m, name, layout, buffer, ret);
}

/* ---- looking up --------------------------------------------------------- */

/* Goes down as far as there are modules; path is then the rest. */
static const tarn_module *go_down(
	const tarn_module *m, const char **path, bool whole)
{
	while (**path) {
		size_t n = first_name(*path);
		const tarn_module *child;

		if (!whole && !(*path)[n])
			break;
		child = child_of(m, *path, n);
		if (!child)
			break;
		m = child;
		*path += n + ((*path)[n] ? 1 : 0);
	}
	return m;
}

static int not_found(const tarn_module *m, const char *rest, const char *what)
{
	return tarn_error_set(ENOENT, "%s%.80s%s has no %s '%.*s'",
		*m->named.path ? "'" : "the module", m->named.path,
		*m->named.path ? "'" : "", what, (int)MIN(first_name(rest), 80),
		rest);
}

int tarn_module_find(tarn_module *m, const char *path, tarn_module **ret)
{
	const tarn_module *found = go_down(m, &path, true);

	if (*path)
		return not_found(found, path, "module");
	*ret = (tarn_module *)found;
	return 0;
}

tarn_parameter *tree_look_up(const tarn_module *m, const char *path)
{
	const tarn_module *found = go_down(m, &path, false);

	return tensor_of(found, path, strlen(path));
}

int tarn_module_find_parameter(
	tarn_module *m, const char *path, tarn_parameter **ret)
{
	const tarn_module *found = go_down(m, &path, false);
	tarn_parameter *p = tensor_of(found, path, strlen(path));

	if (!p)
		return not_found(found, path,
			path[first_name(path)] ? "module" : "tensor");
	*ret = p;
	return 0;
}
