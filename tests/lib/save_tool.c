/* SPDX-License-Identifier: MIT */
/*
 * Saves a file again, for scripts:
 *
 *	save_tool IN OUT [ALIGN [CHECKSUMS [EXPR]]]
 *
 * all tensors, each seen through EXPR, and the metadata. One line: "ok", or
 * "error<TAB>NUMBER<TAB>SENTENCE".
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/save.h>

static int list_tensors(
	tarn_file *file, const char *expr, struct tarn_save_item *items)
{
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		tarn_tensor *whole = NULL, *view = NULL;
		int r;

		items[i].name = tarn_file_at(file, i)->name;
		r = tarn_file_tensor(file, items[i].name, &whole);
		if (r >= 0)
			r = tarn_tensor_eval(whole, expr, &view);
		tarn_tensor_unref(whole);
		if (r < 0)
			return r;
		items[i].tensor = view;
	}
	return 0;
}

static int save(int argc, char **argv, tarn_file *file)
{
	size_t n = tarn_file_count(file);
	size_t pairs_n = tarn_file_metadata_count(file);
	struct tarn_save_item *items = calloc(n + 1, sizeof(*items));
	struct tarn_save_pair *pairs = calloc(pairs_n + 1, sizeof(*pairs));
	struct tarn_save_options o = {
		.align = argc > 3 ? (uint32_t)atoi(argv[3]) : 0,
		.checksums = argc > 4 && atoi(argv[4]),
		.pairs = pairs,
		.n_pairs = pairs_n,
	};
	int r = list_tensors(file, argc > 5 ? argv[5] : "", items);

	for (size_t i = 0; r >= 0 && i < pairs_n; i++)
		r = tarn_file_metadata_at(
			file, i, &pairs[i].key, &pairs[i].value);
	if (r >= 0)
		r = tarn_save(argv[2], items, n, &o, NULL);
	for (size_t i = 0; i < n; i++)
		tarn_tensor_unref((tarn_tensor *)items[i].tensor);
	free(items);
	free(pairs);
	return r;
}

int main(int argc, char **argv)
{
	tarn_file *file = NULL;
	int r;

	if (argc < 3)
		return 2;
	r = tarn_file_open(argv[1], &file);
	if (r >= 0)
		r = save(argc, argv, file);
	tarn_file_unref(file);
	if (r < 0)
		printf("error\t%d\t%s\n", r, tarn_error_message());
	else
		printf("ok\n");
	return 0;
}
