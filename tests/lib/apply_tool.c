// SPDX-License-Identifier: MIT
/*
 * For tests/lib/view_numpy.py: reads lines "BYTE SPEC<TAB>EXPR", applies EXPR
 * to the tensor of that layout at that byte of the file argv[1], and prints 1
 * if something was copied, else 0, and the elements' bytes in C order as hex;
 * or "error". Odd lines come from memory, even ones from file storage.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tensor.h>

#include "tests/kit/tap.h"
#include "tests/kit/tool_file.h"

static void print_bytes(const tarn_tensor *t)
{
	size_t size = (size_t)tarn_layout_nbytes(tarn_tensor_layout(t));
	unsigned char *bytes = malloc(size + 1);

	if (!bytes || tarn_tensor_ravel(t, TARN_ORDER_C, bytes, size) < 0)
		bail("%s", tarn_error_message());
	for (size_t i = 0; i < size; i++)
		printf("%02x", bytes[i]);
	free(bytes);
}

static void answer(tarn_storage *storage, char *line)
{
	tarn_tensor *t = NULL, *view = NULL;
	char *tab = strchr(line, '\t'), *spec;
	struct tarn_layout layout;
	uint64_t base = strtoull(line, &spec, 10);
	int r;

	if (!tab)
		bail("no tab in \"%s\"", line);
	*tab = '\0';
	if (tarn_layout_parse(spec, &layout) < 0 ||
		tarn_tensor_new(storage, base, &layout, &t) < 0)
		bail("%s", tarn_error_message());
	r = tarn_tensor_eval_copy(t, tab + 1, &view);
	if (r < 0) {
		printf("error");
	} else {
		printf("%d ", r);
		print_bytes(view);
	}
	putchar('\n');
	tarn_tensor_unref(view);
	tarn_tensor_unref(t);
}

int main(int argc, char **argv)
{
	tarn_storage *storages[2] = {NULL, NULL};
	char *line = NULL;
	size_t room = 0;

	tool_open(argc, argv, storages);
	for (int i = 0; getline(&line, &room, stdin) >= 0; i++) {
		line[strcspn(line, "\n")] = '\0';
		answer(storages[i % 2], line);
	}
	free(line);
	tool_close(storages);
	return 0;
}
