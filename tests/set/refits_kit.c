/* SPDX-License-Identifier: MIT */
/* The daemon, the sets and the tensors of these tests. */
#include "tests/set/refits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda/cases.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

enum { PATIENCE_MS = 60000 };

tarn_store *refits_store;
const struct tarn_cuda_device *refits_where;
struct daemon refits_daemon;
bool refits_digests;
static bool has_digests; /* the set: a refit that begins one gives none */

/* ---- the daemon ---------------------------------------------------------- */

void refits_begin(const struct tarn_cuda_device *device, const char *budget)
{
	static unsigned n;
	/* Of a small budget, large segments would leave no room for memfds. */
	const char *const extra[] = {budget ? "--budget" : NULL, budget,
		"--segment-size", "2M", NULL};
	char name[32];

	refits_where = device;
	has_digests = false;
	snprintf(name, sizeof(name), "refit%u.sock", n++);
	daemon_start(&refits_daemon, name, extra);
	must(tarn_store_open(refits_daemon.socket, NULL, &refits_store));
}

uint64_t refits_kept(void)
{
	struct tarn_report_daemon d = {0};

	must(report_daemon(refits_store, &d));
	return refits_where ? d.device_memory : d.own_memory;
}

/* The last release is noticed a moment later. */
void refits_check_kept(uint64_t bytes, const char *what)
{
	uint64_t seen = refits_kept();

	for (int ms = 0; seen != bytes && ms < PATIENCE_MS; ms += 2) {
		usleep(2000);
		seen = refits_kept();
	}
	check(seen == bytes, "%s: %llu bytes are kept, not %llu", what,
		(unsigned long long)seen, (unsigned long long)bytes);
}

void refits_end(void)
{
	const struct tarn_publish_options all = {.replace = "w/"};

	must(tarn_store_publish(refits_store, NULL, 0, &all, NULL));
	refits_check_kept(0, "without names");
	tarn_store_unref(refits_store);
	check(daemon_stop(&refits_daemon) == 0, "the daemon ends");
}

/* ---- tensors ------------------------------------------------------------- */

tarn_tensor *refits_numbers(
	enum tarn_dtype dtype, int64_t rows, int64_t columns, int seed)
{
	const int64_t shape[] = {rows, columns};
	tarn_tensor *wide, *t;
	float *p;

	must(tarn_tensor_zeros(TARN_F32, 2, shape, &wide));
	p = tarn_tensor_data(wide);
	for (int64_t i = 0; i < rows * columns; i++)
		p[i] = (float)((seed + i) % 101);
	must(tarn_tensor_zeros(dtype, 2, shape, &t));
	must(tarn_copy(t, wide, NULL, NULL));
	tarn_tensor_unref(wide);
	return t;
}

/* There, refits_where sets are. */
tarn_tensor *refits_placed(tarn_tensor *t)
{
	tarn_tensor *ret;

	if (!refits_where)
		return t;
	must(tarn_tensor_to_device(t, refits_where, NULL, &ret));
	tarn_tensor_unref(t);
	return ret;
}

tarn_tensor *refits_view(tarn_tensor *t, const char *expr)
{
	tarn_tensor *ret;

	must(tarn_tensor_eval(t, expr, &ret));
	return ret;
}

tarn_tensor *refits_found(const char *name)
{
	tarn_tensor *t;
	char whole[64];

	snprintf(whole, sizeof(whole), "w/%s", name);
	must(tarn_store_lookup(refits_store, whole, &t));
	return t;
}

bool refits_equal(const tarn_tensor *t, const tarn_tensor *wanted)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	tarn_tensor *here;
	bool same;

	must(tarn_tensor_zeros(l->dtype, l->ndim, l->shape, &here));
	must(tarn_copy(here, t, NULL, NULL));
	same = must(tarn_tensor_equal(here, wanted)) == 1;
	tarn_tensor_unref(here);
	return same;
}

void refits_check(const char *name, enum tarn_dtype dtype, int64_t rows,
	int64_t columns, int seed, const char *what)
{
	tarn_tensor *t = refits_found(name);
	tarn_tensor *wanted = refits_numbers(dtype, rows, columns, seed);

	check(refits_equal(t, wanted), "%s: the numbers of '%s'", what, name);
	if (refits_where)
		check(tarn_storage_kind(tarn_tensor_storage(t)) ==
				TARN_STORAGE_DEVICE,
			"%s: '%s' is on the device", what, name);
	tarn_tensor_unref(t);
	tarn_tensor_unref(wanted);
}

/* ---- sets ---------------------------------------------------------------- */

/* Takes the tensors over; a name may be a view of another's tensor. */
void refits_publish_all(const char *const *names, tarn_tensor **tensors,
	size_t n, const struct tarn_set_options *options)
{
	struct tarn_set_options all =
		options ? *options : (struct tarn_set_options) {0};
	struct tarn_publish_item items[16] = {0};

	all.digests = has_digests = refits_digests;
	for (size_t i = 0; i < n; i++)
		items[i] = (struct tarn_publish_item) {
			.name = names[i], .tensor = tensors[i]};
	must(tarn_set_publish(refits_store, "w", items, n, &all, NULL));
	for (size_t i = 0; i < n; i++)
		tarn_tensor_unref(tensors[i]);
}

tarn_tensor *refits_created(int64_t rows, int64_t columns, int seed)
{
	const int64_t shape[] = {rows, columns};
	tarn_tensor *t, *numbers;

	numbers = refits_numbers(TARN_F32, rows, columns, seed);
	if (refits_where)
		return refits_placed(numbers);
	must(tarn_store_create(refits_store, TARN_F32, 2, shape, 0, &t));
	must(tarn_copy(t, numbers, NULL, NULL));
	tarn_tensor_unref(numbers);
	return t;
}

void refits_publish(int64_t rows, int64_t columns)
{
	static const char *const names[] = {"a", "b", "c"};
	const struct tarn_set_field fields[] = {
		{.key = "model", .value = "m"}, {.key = "step", .value = "1"}};
	const struct tarn_set_note note = {
		.name = "b", .bytes = "note", .size = 4};
	const struct tarn_set_options options = {
		.fields = fields, .n_fields = 2, .notes = &note, .n_notes = 1};
	tarn_tensor *t[3];

	for (int i = 0; i < 3; i++)
		t[i] = refits_created(rows, columns, i + 1);
	refits_publish_all(names, t, 3, &options);
}

tarn_refit *refits_refit(const struct tarn_refit_options *options)
{
	tarn_refit *refit = NULL;

	must(tarn_refit_begin(refits_store, "w", options, &refit));
	return refit;
}

void refits_put(tarn_refit *refit, const char *name, tarn_tensor *t)
{
	must(tarn_refit_put(refit, name, t));
	tarn_tensor_unref(t);
}

void refits_commit(tarn_refit *refit)
{
	must(tarn_refit_commit(refit));
	if (has_digests)
		must(tarn_set_verify(refits_store, "w", NULL));
	tarn_refit_free(refit);
}
