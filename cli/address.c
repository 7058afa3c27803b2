/* SPDX-License-Identifier: MIT */
/* FILE:TENSOR, and what people may have meant by it. */
#include "cli/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/cli.h"
#include "cli/message.h"
#include "cli/store.h"
#include "cli/suggest.h"

#define TENSORS_SHOWN 10

static int no_tensor(const tarn_file *file)
{
	const char *path = tarn_file_path(file);
	size_t n = tarn_file_count(file);

	if (n == 0)
		return print_failure("%s has no tensors", path);
	print_failure("%s is a file; say which of its %zu tensors, FILE:TENSOR",
		path, n);
	for (size_t i = 0; i < MIN(n, TENSORS_SHOWN); i++)
		print_hint("%s:%s", path, tarn_file_at(file, i)->name);
	if (n > TENSORS_SHOWN)
		print_hint("... 'tarn info %s' lists them all", path);
	return EXIT_FAILED;
}

int address_no_tensor(const char *path)
{
	_cleanup_file_ tarn_file *file = NULL;

	if (tarn_file_open(path, &file) < 0)
		return print_error();
	return no_tensor(file);
}

char *address_of_one(const char *path)
{
	_cleanup_file_ tarn_file *file = NULL;
	char *address;

	if (tarn_file_open(path, &file) < 0) {
		print_error();
		return NULL;
	}
	if (tarn_file_count(file) != 1) {
		no_tensor(file);
		return NULL;
	}
	if (asprintf(&address, "%s:%s", path, tarn_file_at(file, 0)->name) < 0)
		must(NULL);
	return address;
}

char *address_file(const char *address, const char **ret_tensor)
{
	const char *colon = strchr(address, ':');

	for (; colon; colon = strchr(colon + 1, ':')) {
		char *path = must(strndup(address, (size_t)(colon - address)));

		*ret_tensor = colon + 1;
		if (cli_is_file(path))
			return path;
		free(path);
	}
	return NULL;
}

void address_hint(const tarn_file *file, const char *tensor)
{
	struct suggest suggest;

	suggest_begin(&suggest, tensor);
	for (size_t i = 0; i < tarn_file_count(file); i++)
		suggest_offer(&suggest, tarn_file_at(file, i)->name);
	suggest_print(&suggest, NULL);
	print_hint("'tarn info %s' lists its tensors", tarn_file_path(file));
}

static int open_in(tarn_file *file, const char *tensor, tarn_tensor **ret)
{
	if (!tensor && tarn_file_count(file) != 1)
		return no_tensor(file);
	if (!tensor)
		tensor = tarn_file_at(file, 0)->name;
	if (tarn_file_tensor(file, tensor, ret) >= 0)
		return EXIT_DONE;
	print_error();
	if (!tarn_file_find(file, tensor))
		address_hint(file, tensor);
	return EXIT_FAILED;
}

int address_open(const char *address, tarn_tensor **ret)
{
	_cleanup_file_ tarn_file *file = NULL;
	_cleanup_free_ char *path = NULL;
	const char *tensor = NULL;

	if (!cli_is_file(address)) {
		path = address_file(address, &tensor);
		if (!path)
			tensor = NULL;
	}
	/* If there is none, the library's error says it best. */
	if (tarn_file_open(path ? path : address, &file) < 0)
		return print_error();
	return open_in(file, tensor, ret);
}
