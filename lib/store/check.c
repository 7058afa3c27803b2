/* SPDX-License-Identifier: MIT */
/*
 * Asks the server to check its tables and its books. It writes both, so its one
 * answer is exact.
 */
#include <tarn/report.h>

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/store/store.h"
#include "shm/table_check.h"

/* ---- the server ------------------------------------------------------- */

static int parse(const struct wire_message *reply, struct faults *faults,
	struct msg_checked *ret)
{
	const char *at = (const char *)reply->body + sizeof(*ret);
	const char *end = (const char *)reply->body + reply->size;

	memcpy(ret, reply->body, sizeof(*ret));
	for (uint32_t i = 0; i < ret->n_faults; i++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		if (!stop)
			return tarn_fail(EPROTO,
				"check: %u faults were announced, %u came",
				ret->n_faults, i);
		fault_add(faults, "%.*s", (int)(stop - at), at);
		at = stop + 1;
	}
	faults->n_more += ret->n_more;
	return 0;
}

static int ask(
	tarn_store *store, struct faults *faults, struct msg_checked *ret)
{
	struct wire_message reply = {0};
	struct call call;
	int r = call_begin(
		&store->connection, &call, WIRE_OUT(WIRE_CHECK, 0, NULL, 0));

	if (r < 0)
		return r;
	r = store_await(store, &call, &reply);
	call_end(&store->connection, &call);
	if (r >= 0)
		r = call_expect(
			&store->connection, &reply, WIRE_CHECKED, sizeof(*ret));
	if (r >= 0)
		r = parse(&reply, faults, ret);
	wire_message_clear(&reply);
	return r;
}

/* ---- the result ------------------------------------------------------- */

static int make_result(const struct faults *faults,
	const struct msg_checked *sum, struct tarn_check **ret)
{
	struct tarn_check *check = calloc(1, sizeof(*check));
	char **lines = calloc(faults->n + 1ul, sizeof(*lines));

	if (!check || !lines) {
		free(check);
		free(lines);
		return tarn_fail(ENOMEM, "check: out of memory");
	}
	for (uint32_t i = 0; i < faults->n; i++) {
		lines[i] = strdup(faults->lines[i]);
		check->n_faults += lines[i] != NULL;
		if (!lines[i])
			break;
	}
	check->names = sum->names;
	check->storages = sum->storages;
	check->bytes = sum->bytes;
	check->n_more =
		(uint32_t)faults->n_more + (faults->n - check->n_faults);
	check->faults = (const char *const *)lines;
	*ret = check;
	return 0;
}

int tarn_store_check(tarn_store *store, struct tarn_check **ret)
{
	struct faults faults = {0};
	struct msg_checked sum;
	int r = ask(store, &faults, &sum);

	if (r >= 0)
		r = make_result(&faults, &sum, ret);
	faults_clear(&faults);
	return r;
}

struct tarn_check *tarn_check_free(struct tarn_check *check)
{
	if (!check)
		return NULL;
	for (uint32_t i = 0; i < check->n_faults; i++)
		free((char *)check->faults[i]);
	free((void *)check->faults);
	free(check);
	return NULL;
}
