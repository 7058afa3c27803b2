/* SPDX-License-Identifier: MIT */
/*
 * A pool's pages: a report has what was asked for and how much of the memory is
 * in huge ones, also after the server has been replaced; and pages of the
 * reserve go back to it when nothing lies in them any more, while the daemon
 * runs, each of them whole.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/report.h>

#include "base/page.h"
#include "tests/kit/huge_pages.h"
#include "tests/kit/pool_deeds.h"
#include "tests/kit/witness.h"
#include "tests/kit/tap.h"

#define FILE_SIZE (3u << 20)
#define SEGMENT (2 * HUGE_PAGE)
#define PATIENCE_S 60.0

static struct pool_kit kit;
static tarn_store *store;

static struct tarn_report_pool pool(const char *name)
{
	struct tarn_report_pool found = {.name = ""};
	struct tarn_report *report = NULL;

	if (tarn_store_report(store, &report) < 0)
		bail("report: %s", tarn_error_message());
	for (uint32_t i = 0; i < report->n_pools; i++)
		if (strcmp(report->pools[i].name, name) == 0)
			found = report->pools[i];
	tarn_report_free(report);
	return found;
}

static void has(
	const char *name, const char *pages, uint64_t huge, const char *when)
{
	struct tarn_report_pool p = pool(name);

	is_str(pages, p.pages, "the pool %s has what it asks for, %s", name,
		when);
	is_int((int64_t)SEGMENT, (int64_t)p.allocated,
		"the pool %s has one segment, %s", name, when);
	is_int((int64_t)huge, (int64_t)p.huge,
		"of the pool %s as much is in huge pages, %s", name, when);
}

/* Of a tensor in a store, and of a part of it that begins inside of a page. */
static void tensor_has(tarn_store *from, uint64_t page_size, const char *what)
{
	tarn_tensor *all = NULL, *part = NULL, *none = NULL;
	struct tarn_tensor_pages p = {0};

	if (tarn_store_lookup(from, "f/t", &all) < 0 ||
		tarn_tensor_eval(all, "[100:2500000:3]", &part) < 0 ||
		tarn_tensor_eval(all, "[5:5]", &none) < 0)
		bail("look-up: %s", tarn_error_message());
	is_int(0, tarn_tensor_pages(all, &p), "the pages are asked for: %s",
		what);
	is_int((int64_t)page_size, (int64_t)p.page_size,
		"a tensor has the size of its pages: %s", what);
	ok(p.bytes == FILE_SIZE && p.covered == FILE_SIZE,
		"all of it lies in such: %s", what);
	is_int(0, tarn_tensor_pages(part, &p), "those of a view: %s", what);
	is_int((int64_t)page_size, (int64_t)p.page_size,
		"a view has them, too: %s", what);
	/* 100, 103, ... 2499997 */
	ok(p.bytes == 2499898 && p.covered == p.bytes,
		"the bytes of a view are those that it reaches: %s", what);
	ok(tarn_tensor_pages(none, &p) == 0 && p.bytes == 0 && p.covered == 0,
		"no element lies in no page: %s", what);
	tarn_tensor_unref(none);
	tarn_tensor_unref(part);
	tarn_tensor_unref(all);
}

static void tensor_in(const char *name, uint64_t page_size)
{
	const struct tarn_store_options options = {.pool = name};
	tarn_store *from = NULL;

	if (tarn_store_open(kit.daemon.socket, &options, &from) < 0)
		bail("open: %s", tarn_error_message());
	tensor_has(from, page_size, name);
	tarn_store_unref(from);
}

static void tensor_in_file(void)
{
	tarn_file *file = NULL;
	tarn_tensor *t = NULL;
	struct tarn_tensor_pages p;

	if (tarn_file_open(
		    kit_pool_file(&kit, "file", FILE_SIZE, 9, 0), &file) < 0 ||
		tarn_file_tensor(file, "t", &t) < 0)
		bail("file: %s", tarn_error_message());
	is_int(-ENOTSUP, tarn_tensor_pages(t, &p),
		"a tensor in a file has no pages");
	tarn_tensor_unref(t);
	tarn_file_unref(file);
}

static void load(const char *name)
{
	struct wish wish = {.pool = name,
		.file = kit_pool_file(&kit, name, FILE_SIZE, 9, 0),
		.name = "f"};

	is_int(0, kit_pool_as(&kit, geteuid(), deed_load, &wish)->r,
		"a file is loaded into the pool %s", name);
}

static void drop(const char *name)
{
	struct wish wish = {.pool = name, .name = "f/t"};

	is_int(0, kit_pool_as(&kit, geteuid(), deed_drop, &wish)->r,
		"the tensor is removed from the pool %s", name);
}

static void replace_server(void)
{
	pid_t keeper = kit.daemon.pid;
	pid_t old = child_named(keeper, "tarn-server"), now = old;

	kill(old, SIGKILL);
	while (now == old || now == 0) {
		usleep(10000);
		now = child_named(keeper, "tarn-server");
	}
}

static void small_pages(void)
{
	load("small");
	has("small", "4k", 0, "first");
	is_int((int64_t)PAGE, (int64_t)pool("small").page_size,
		"the pool small has the least size of pages");
	tensor_in("small", (uint64_t)sysconf(_SC_PAGESIZE));
}

static void reserved_pages(void)
{
	double end;

	if (!huge_pages_reserve(SEGMENT / HUGE_PAGE)) {
		skip(19, "no huge pages of 2 MiB can be reserved");
		return;
	}
	is_int(SEGMENT / HUGE_PAGE, (int64_t)huge_pages_free(),
		"as many pages are free as a segment needs");
	load("two");
	is_int(0, (int64_t)huge_pages_free(), "the pool has taken all of them");
	has("two", "2m", SEGMENT, "first");
	is_int((int64_t)HUGE_PAGE, (int64_t)pool("two").page_size,
		"the pool two has the size of its pages");
	tensor_in("two", HUGE_PAGE);
	replace_server();
	has("two", "2m", SEGMENT, "under the next server");
	drop("two");
	end = seconds() + PATIENCE_S;
	while (huge_pages_free() < SEGMENT / HUGE_PAGE && seconds() < end)
		usleep(20000);
	is_int(SEGMENT / HUGE_PAGE, (int64_t)huge_pages_free(),
		"an empty segment's pages are in the reserve again");
}

int main(void)
{
	huge_pages_turn();
	kit_pool_start(&kit, "[daemon]\nidle = 1\n"
			     "[pool small]\npages = 4k\nsegment-size = 4M\n"
			     "[pool two]\npages = 2m\nsegment-size = 4M\n");
	if (tarn_store_open(kit.daemon.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	small_pages();
	reserved_pages();
	tensor_in_file();
	is_str("auto", pool("uid:0").name[0] ? pool("uid:0").pages : "auto",
		"a user's own pool takes what there is");
	tarn_store_unref(store);
	is_int(0, kit_pool_stop(&kit), "the daemon ends as it should");
	huge_pages_give_back();
	return done(34);
}
