/* SPDX-License-Identifier: MIT */
/*
 * How long the daemon is silent when its server is killed:
 *
 *	bench/restart SOCKET FOLDER [NAMES [GIB]]
 *
 * A file of so many GiB and so many tensors is loaded, then the server is
 * killed and gets a request at once: the time until its answer is measured.
 * Then the same with a storage for every tenth name, and each of them again
 * with a client for every hundredth. There is no reference but the limit of
 * 100 ms.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/times.h"

enum { ROUNDS = 7, CLIENTS = 100, SMALL = 64 };

static tarn_store *store;

static void die(const char *what)
{
	fprintf(stderr, "bench/restart: %s: %s\n", what, tarn_error_message());
	exit(1);
}

/* Tensors side by side; their bytes are a hole. */
static void load(const char *folder, unsigned names, unsigned long long bytes)
{
	struct tarn_load_options options = {.name = "m"};
	unsigned long long each = bytes / names / 64 * 64;
	char path[4096];
	tarn_file *file;
	uint64_t size;
	FILE *f;

	snprintf(path, sizeof(path), "%s/m.safetensors", folder);
	f = fopen(path, "w");
	if (!f || fseek(f, 8, SEEK_SET) < 0) {
		perror(path);
		exit(1);
	}
	for (unsigned i = 0; i < names; i++)
		fprintf(f,
			"%s\"layer.%u.weight\":{\"dtype\":\"U8\",\"shape\":"
			"[%llu],\"data_offsets\":[%llu,%llu]}",
			i ? "," : "{", i, each, i * each, (i + 1) * each);
	fputc('}', f);
	size = (uint64_t)ftell(f) - 8;
	if (fseek(f, 0, SEEK_SET) < 0 || fwrite(&size, 8, 1, f) != 1 ||
		fflush(f) != 0 ||
		ftruncate(fileno(f), (off_t)(8 + size + names * each)) < 0) {
		perror(path);
		exit(1);
	}
	fclose(f);
	if (tarn_file_open(path, &file) < 0 ||
		tarn_store_load(store, file, &options, NULL, NULL) < 0)
		die(path);
	tarn_file_unref(file);
	unlink(path);
}

static void publish_small(unsigned n)
{
	char name[40];

	for (unsigned i = 0; i < n; i++) {
		struct tarn_publish_item item = {.name = name};
		int64_t size = SMALL;

		snprintf(name, sizeof(name), "small/%u", i);
		if (tarn_store_create(
			    store, TARN_U8, 1, &size, 0, &item.tensor) < 0 ||
			tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
			die(name);
		tarn_tensor_unref(item.tensor);
	}
}

static struct tarn_report_daemon report_at(const char *when)
{
	struct tarn_report *report;
	struct tarn_report_daemon d;

	if (tarn_store_report(store, &report) < 0)
		die(when);
	d = report->daemon;
	tarn_report_free(report);
	return d;
}

/* Kills it; the seconds until it answers. */
static double silence(void)
{
	struct tarn_report_daemon s = report_at("before its death");
	double start;

	/* One more death in a row would be too many: see tarnd(8). */
	kill(s.keeper_pid, SIGHUP);
	start = wall();
	kill(s.server_pid, SIGKILL);
	report_at("after its death");
	return wall() - start;
}

static void measure(const char *what)
{
	struct tarn_report_daemon s;
	double ms[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		ms[i] = silence() * 1e3;
		usleep(100000);
	}
	sort_values(ms, ROUNDS);
	s = report_at("at the end");
	printf("%-18s %7llu names %7llu storages %5.2f GiB %4u clients:"
	       " %6.1f ms, at worst %6.1f (at most 100)\n",
		what, (unsigned long long)s.names,
		(unsigned long long)s.storages, (double)s.used / (1 << 30),
		s.clients, ms[ROUNDS / 2], ms[ROUNDS - 1]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned names = argc > 3 ? (unsigned)atoi(argv[3]) : 100000;
	double gib = argc > 4 ? atof(argv[4]) : 8;
	tarn_store *more[CLIENTS];

	if (argc < 3 || !names) {
		fprintf(stderr,
			"usage: bench/restart SOCKET FOLDER [NAMES [GIB]]\n");
		return 2;
	}
	if (tarn_store_open(argv[1], NULL, &store) < 0)
		die("open");
	measure("nothing");
	load(argv[2], names, (unsigned long long)(gib * (1 << 30)));
	measure("one file");
	publish_small(names / 10);
	measure("and many storages");
	for (int i = 0; i < CLIENTS; i++)
		if (tarn_store_open(argv[1], NULL, &more[i]) < 0)
			die("open");
	measure("and clients");
	for (int i = 0; i < CLIENTS; i++)
		tarn_store_unref(more[i]);
	tarn_store_unref(store);
	return 0;
}
