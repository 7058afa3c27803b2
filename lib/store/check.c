/* SPDX-License-Identifier: MIT */
/*
 * A check of the whole store: what this process can see, and what the server
 * says of its books.
 *
 * The idea: a store that is in use changes while it is looked at. So whoever
 * finds faults looks again, after a pause, and only what all looks have found
 * is told.
 */
#include <tarn/report.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/store/store.h"
#include "shm/table_check.h"

#define LOOKS 4            /* picked: what is changing is gone by the second */
#define PAUSE_NS 100000000 /* a starved server needs some */
#define PATIENCE 50        /* pauses, while others check */

static void nap(void)
{
	const struct timespec t = {.tv_nsec = PAUSE_NS};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

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

static int ask_once(
	tarn_store *store, struct faults *faults, struct msg_checked *ret)
{
	struct wire_message reply;
	int r = -EBUSY;

	for (int i = 0; i < PATIENCE && r == -EBUSY; i++) {
		if (i)
			nap();
		r = connection_call(&store->connection, WIRE_CHECK, NULL, 0,
			WIRE_CHECKED, sizeof(*ret), &reply);
	}
	if (r < 0)
		return r;
	r = parse(&reply, faults, ret);
	wire_message_clear(&reply);
	return r;
}

/* Until there is nothing, or nothing else is to be expected. */
static int ask(
	tarn_store *store, struct faults *faults, struct msg_checked *ret)
{
	int r = ask_once(store, faults, ret);

	for (int i = 1; i < LOOKS && r >= 0 && faults->n + faults->n_more;
		i++) {
		struct faults again = {0};

		nap();
		r = ask_once(store, &again, ret);
		if (r >= 0)
			faults_keep_common(faults, &again);
		faults_clear(&again);
	}
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

static void add_missing(struct faults *to, const struct faults *from)
{
	uint32_t n = to->n;

	for (uint32_t i = 0; i < from->n; i++) {
		uint32_t k = 0;

		while (k < n && strcmp(to->lines[k], from->lines[i]) != 0)
			k++;
		if (k == n)
			fault_add(to, "%s", from->lines[i]);
	}
	to->n_more += from->n_more;
}

static int check_speaks(const struct tarn_store *store)
{
	if (store->version >= 2)
		return 0;
	return tarn_fail(ENOTSUP,
		"daemon at %s: it speaks protocol %u, and checks came with 2; "
		"stop it, and the next open starts a newer one",
		store->socket, store->version);
}

int tarn_store_check(tarn_store *store, struct tarn_check **ret)
{
	struct faults inside = {0}, outside = {0};
	struct msg_checked sum;
	struct table_tally tally;
	int r = check_speaks(store);

	if (r >= 0)
		r = ask(store, &inside, &sum);
	if (r >= 0)
		r = table_check(&store->table, descriptor_agrees, LOOKS,
			&outside, &tally);
	if (r >= 0) {
		add_missing(&inside, &outside);
		r = make_result(&inside, &sum, ret);
	}
	faults_clear(&inside);
	faults_clear(&outside);
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
