/* SPDX-License-Identifier: MIT */
/*
 * One load through the daemon, as a client sees it.
 *
 *	bench/load SOCKET FILE
 *
 * prints the rate from call to return and the CPU time of client and daemon
 * together. The file must be new to the daemon (touch it), or nobody reads.
 */
#include <stdio.h>

#include <tarn/tarn.h>

static int load(const char *socket, const char *path)
{
	struct tarn_load_info info;
	tarn_store *store = NULL;
	tarn_file *file = NULL;
	int r;

	r = tarn_store_open(socket, NULL, &store);
	if (r == 0)
		r = tarn_file_open(path, &file);
	if (r == 0)
		r = tarn_store_load(store, file, NULL, &info, NULL);
	if (r == 0) {
		double gib = (double)info.bytes / (1 << 30);

		printf("tarn %s%s%s%s: %.3f GiB/s, %.1f ms of CPU per GiB\n",
			info.engine, info.direct ? " direct" : " buffered",
			info.registered ? " registered" : "",
			info.cached ? " CACHED" : "", gib / info.seconds,
			1000 * info.cpu_seconds / gib);
	}
	tarn_file_unref(file);
	tarn_store_unref(store);
	return r;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: bench/load SOCKET FILE\n");
		return 2;
	}
	if (load(argv[1], argv[2]) < 0) {
		fprintf(stderr, "bench/load: %s\n", tarn_error_message());
		return 1;
	}
	return 0;
}
