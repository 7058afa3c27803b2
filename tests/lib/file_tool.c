/* SPDX-License-Identifier: MIT */
/*
 * What the file readers see, for scripts: one line a tensor,
 *
 *	NAME<TAB>DTYPE<TAB>SHAPE<TAB>VALUES
 *
 * the values being the elements' bytes in C order, in hexadecimal; or one line
 * "error<TAB>NUMBER<TAB>SENTENCE" a file.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/file.h>

static int show(tarn_file *file, const struct tarn_file_entry *t)
{
	unsigned char *bytes = malloc(t->nbytes + 1);
	tarn_tensor *tensor = NULL;
	int r = tarn_file_tensor(file, t->name, &tensor);

	if (r >= 0)
		r = tarn_tensor_ravel(tensor, TARN_ORDER_C, bytes, t->nbytes);
	if (r >= 0) {
		printf("%s\t%s\t(", t->name, tarn_dtype_name(t->dtype));
		for (int i = 0; i < t->ndim; i++)
			printf("%llu,", (unsigned long long)t->shape[i]);
		printf(")\t");
		for (uint64_t i = 0; i < t->nbytes; i++)
			printf("%02x", bytes[i]);
		printf("\n");
	}
	tarn_tensor_unref(tensor);
	free(bytes);
	return r;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		tarn_file *file = NULL;
		int r = tarn_file_open(argv[i], &file);

		for (size_t k = 0; r >= 0 && k < tarn_file_count(file); k++)
			r = show(file, tarn_file_at(file, k));
		if (r < 0)
			printf("error\t%d\t%s\n", r, tarn_error_message());
		tarn_file_unref(file);
	}
	return 0;
}
