/* SPDX-License-Identifier: MIT */
#include "tests/kit/replica.h"

#include <errno.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "shm/table.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

/* ---- what is not known --------------------------------------------------- */

int __wrap_tarn_tensor_node(const tarn_tensor *tensor, int *ret);
int __wrap_store_place_node(const struct table *table, uint32_t pool,
	uint64_t base, uint64_t size, int *ret);
int __wrap_node_here(void);

int __wrap_tarn_tensor_node(const tarn_tensor *tensor, int *ret)
{
	(void)tensor;
	*ret = -1;
	return -ENODATA;
}

int __wrap_store_place_node(const struct table *table, uint32_t pool,
	uint64_t base, uint64_t size, int *ret)
{
	(void)table;
	(void)pool;
	(void)base;
	(void)size;
	*ret = -1;
	return -ENODATA;
}

int __wrap_node_here(void)
{
	return KIT_NODE;
}

/* ---- looking ------------------------------------------------------------- */

void kit_good(int r, const char *what)
{
	if (r < 0)
		bail("%s: %s", what, tarn_error_message());
}

uint32_t kit_storage_of(tarn_store *store, const tarn_tensor *tensor)
{
	struct tarn_descriptor d;

	kit_good(tarn_store_export(store, tensor, &d), "export");
	return d.storage;
}

uint32_t kit_storage_named(tarn_store *store, const char *name)
{
	tarn_tensor *t = NULL;
	uint32_t storage;

	kit_good(tarn_store_lookup(store, name, &t), name);
	storage = kit_storage_of(store, t);
	tarn_tensor_unref(t);
	return storage;
}

static struct tarn_report_daemon report_of(tarn_store *store)
{
	struct tarn_report_daemon report = {0};

	kit_good(report_daemon(store, &report), "report");
	return report;
}

bool kit_storages_become(tarn_store *store, uint64_t n)
{
	uint64_t is = report_of(store).storages;
	double end = seconds() + 60;

	while (is != n && seconds() < end) {
		usleep(10000);
		is = report_of(store).storages;
	}
	if (is != n)
		diag("%llu storages", (unsigned long long)is);
	return is == n;
}

bool kit_is_sound(tarn_store *store)
{
	struct tarn_check *check = NULL;
	bool none;

	kit_good(tarn_store_check(store, &check), "check");
	none = !check->n_faults;
	for (size_t i = 0; i < check->n_faults; i++)
		diag("%s", check->faults[i]);
	tarn_check_free(check);
	return none;
}

int kit_server_pid(tarn_store *store)
{
	return report_of(store).server_pid;
}
