/* SPDX-License-Identifier: MIT */
/*
 * Loading a file: the client opens and parses, the daemon gets descriptors, one
 * byte range, and the names to publish.
 *
 * The whole data range becomes one storage, and tensors are views of it; so one
 * request loads any number of tensors, and it makes no difference here whether
 * the bytes were in memory already. The client takes the lease as soon as the
 * daemon reports where the bytes will be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/reserved.h"
#include "lib/store/inflated.h"
#include "lib/store/load_request.h"
#include "lib/store/load_shards.h"
#include "lib/store/not_kept.h"
#include "lib/store/own_place.h"
#include "lib/store/store.h"

#define STEP_MS 50      /* between two reports of progress: a smooth bar */
#define SILENCE_MS 5000 /* then the client checks whether the daemon lives */
#define ATTEMPTS_MAX                                                           \
	3 /* how often it may be loaded, and evicted before it is
			 * leased */

/* A load under way. */
struct load {
	struct tarn_store *store;
	const struct tarn_load_options *options; /* may be NULL */
	struct call call;
	uint64_t total;
	bool cancelled;
	bool cancelled_again;   /* for another server */
	int64_t silent_ms;      /* since the daemon last answered */
	uint64_t ready, wanted; /* the memory that it waits for; 0: it does not
				 * wait */
	/* The storage that is being filled, once the daemon has named it:
	 * leased. */
	bool held;
	uint32_t index;
	uint64_t generation;
};

/* ---- while it runs --------------------------------------------------- */

static uint64_t landed(const struct load *load)
{
	const struct table_storage *entry;
	uint64_t n;

	if (!load->held)
		return 0;
	entry = &load->store->table.storages[load->index];
	/* Relaxed: a number for people. */
	n = atomic_load_explicit(&entry->landed, memory_order_relaxed);
	return MIN(n, load->total);
}

/* It has to be asked for again. */
static int report_nothing(const struct tarn_load_options *o, uint64_t total)
{
	if (o && o->progress &&
		o->progress(o->arg, TARN_LOAD_PHASE_READ, 0, total))
		return tarn_fail(ECANCELED, "load: cancelled");
	return 0;
}

/* Reports progress. Not 0: the caller wants to cancel. */
static int report_progress(const struct load *load)
{
	const struct tarn_load_options *o = load->options;

	if (!o || !o->progress)
		return 0;
	if (load->wanted)
		return o->progress(o->arg, TARN_LOAD_PHASE_MEMORY, load->ready,
			load->wanted);
	return o->progress(
		o->arg, TARN_LOAD_PHASE_READ, landed(load), load->total);
}

static int cancel(struct load *load)
{
	struct msg_cancel message = {.serial = load->call.out.serial};

	load->cancelled = true;
	return connection_notify(&load->store->connection, WIRE_CANCEL,
		&message, sizeof(message));
}

/* A daemon that is waiting for a slow disk answers; one that hangs does not. */
static int is_alive(struct load *load)
{
	if (load->silent_ms < SILENCE_MS)
		return 0;
	load->silent_ms = 0;
	return store_ping(load->store);
}

static int pass_time(struct load *load, int step_ms)
{
	struct connection *c = &load->store->connection;

	load->silent_ms += step_ms;
	if (load->cancelled && load->silent_ms >= c->timeout_ms)
		return tarn_fail(ETIMEDOUT,
			"daemon at %s: no answer to a cancellation within "
			"%d ms",
			c->peer, c->timeout_ms);
	if (load->cancelled && !load->cancelled_again &&
		call_was_resent(c, &load->call)) {
		load->cancelled_again = true;
		return cancel(load);
	}
	if (load->cancelled)
		return 0;
	if (report_progress(load))
		return cancel(load);
	return is_alive(load);
}

static void let_go(struct load *load)
{
	if (load->held)
		store_drop_lease(
			load->store, load->index, load->generation, NULL);
	load->held = false;
}

/* Handles a progress message of the daemon; once the load has memory, the
 * storage is held. */
static int loading(struct load *load, const struct wire_message *reply)
{
	struct tarn_store *store = load->store;
	struct msg_loading message;
	tarn_storage *known;

	if (reply->size < sizeof(message))
		return tarn_fail(EPROTO,
			"daemon at %s: a notice of a load of %u bytes",
			store->socket, reply->size);
	/* It began anew, with another loader or another server. */
	let_go(load);
	memcpy(&message, reply->body, sizeof(message));
	load->wanted = load->ready = 0;
	if (message.phase == LOADING_MEMORY) {
		load->wanted = message.wanted;
		load->ready = MIN(message.ready, message.wanted);
		return pass_time(load, 0);
	}
	/* If it is gone already, the final answer will say why. */
	if (store_hold(store, message.index, message.generation, NULL, &known) <
		0)
		return 0;
	if (known) {
		tarn_storage_unref(known);
		return 0;
	}
	load->held = true;
	load->index = message.index;
	load->generation = message.generation;
	return 0;
}

static int await(struct load *load, struct msg_loaded *ret)
{
	struct connection *c = &load->store->connection;
	int r = 0;

	while (r >= 0) {
		struct wire_message reply = {0};

		r = call_next(c, &load->call, STEP_MS, &reply);
		if (r == 0) {
			r = pass_time(load, STEP_MS);
			continue;
		}
		if (r < 0)
			break;
		load->silent_ms = 0;
		if (reply.type == WIRE_LOADING) {
			r = loading(load, &reply);
			wire_message_clear(&reply);
			continue;
		}
		r = call_expect(c, &reply, WIRE_LOADED, sizeof(*ret));
		if (r >= 0)
			memcpy(ret, reply.body, sizeof(*ret));
		wire_message_clear(&reply);
		break;
	}
	if (load->cancelled && r < 0)
		return tarn_fail(ECANCELED, "load: cancelled");
	return r;
}

/* ---- one attempt, and all of them ------------------------------------ */

static int check_loaded(const struct load *load, const struct msg_loaded *m,
	const struct table_storage *entry)
{
	if (m->pool != entry->pool || m->base != entry->base ||
		m->size != entry->size || m->size != load->total)
		return tarn_fail(EPROTO,
			"daemon at %s: it has loaded %llu bytes at %llu of "
			"pool %u; its table says %llu at %llu of pool %u, and "
			"the file has %llu",
			load->store->socket, (unsigned long long)m->size,
			(unsigned long long)m->base, m->pool,
			(unsigned long long)entry->size,
			(unsigned long long)entry->base, entry->pool,
			(unsigned long long)load->total);
	return 0;
}

static int take_loaded(
	const struct load *load, const struct msg_loaded *m, tarn_storage **ret)
{
	tarn_storage *storage;
	struct table_storage entry;
	int r;

	r = store_storage(
		load->store, m->index, m->generation, &entry, &storage);
	if (r < 0)
		return r;
	r = check_loaded(load, m, &entry);
	if (r < 0)
		tarn_storage_unref(storage);
	else
		*ret = storage;
	return r;
}

static int attempt(struct tarn_store *store, const struct load_request *request,
	const struct tarn_load_options *options, struct msg_loaded *ret_loaded,
	tarn_storage **ret)
{
	struct load load = {
		.store = store, .options = options, .total = request->total};
	int r;

	r = call_begin(&store->connection, &load.call,
		WIRE_OUT_FDS(WIRE_LOAD, 0, request->body, request->size,
			request->fds, request->n_fds));
	if (r < 0)
		return r;
	/* Also of a load that is quicker than a step; its first phase. */
	if (options && options->progress &&
		options->progress(options->arg, TARN_LOAD_PHASE_MEMORY, 0,
			request->total))
		r = cancel(&load);
	if (r >= 0)
		r = await(&load, ret_loaded);
	call_end(&store->connection, &load.call);
	if (r >= 0) {
		r = take_loaded(&load, ret_loaded, ret);
		r = r == -ESTALE ? 1 : r;
	}
	let_go(&load);
	return r;
}

int store_load_request(struct tarn_store *store,
	const struct load_request *request,
	const struct tarn_load_options *options, struct msg_loaded *ret_loaded,
	tarn_storage **ret)
{
	int64_t until = clock_ms() + CONNECTION_AGAIN_MS;
	int r = attempt(store, request, options, ret_loaded, ret);

	while (call_asks_again(r, until)) {
		r = report_nothing(options, request->total);
		if (r == 0)
			r = attempt(store, request, options, ret_loaded, ret);
	}
	return r;
}

/* A load that is gone was published, and no name leads to it any more: others
 * have displaced or removed all of them. So only its bytes are requested
 * again. */
static int attempt_all(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options, struct msg_loaded *ret_loaded,
	tarn_storage **ret)
{
	const char *name = options ? options->name : NULL;
	int r = 1;

	for (int i = 0; i < ATTEMPTS_MAX && r == 1; i++) {
		struct load_request request;

		r = load_request_make(file, i ? NULL : name,
			options && options->fresh, own_place_wish(store),
			&request);
		if (r < 0)
			break;
		r = store_load_request(
			store, &request, options, ret_loaded, ret);
		load_request_free(&request);
	}
	if (r == 1)
		return tarn_fail(ESTALE,
			"%.200s: loaded %d times, and evicted each time before "
			"it could be used; is the daemon's budget too small?",
			tarn_file_path(file), ATTEMPTS_MAX);
	return r;
}

int store_load_storage(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_storage **ret)
{
	double start = clock_seconds(CLOCK_MONOTONIC);
	double cpu = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
	struct tarn_load_info there;
	struct msg_loaded loaded;
	int r;

	if (options && options->verify)
		return store_load_verified(store, file, options, ret_info, ret);
	r = store_inflated_storage(
		store, file, options, ret_info ? ret_info : &there, ret);
	if (r != 1)
		return r;
	r = attempt_all(store, file, options, &loaded, ret);
	if (r < 0)
		return r;
	if (ret_info)
		*ret_info = (struct tarn_load_info) {
			.bytes = loaded.size,
			.seconds = clock_seconds(CLOCK_MONOTONIC) - start,
			.cpu_seconds = clock_seconds(CLOCK_THREAD_CPUTIME_ID) -
				       cpu + (double)loaded.cpu_ns / 1e9,
			.engine = loaded.flags & LOADED_URING ? "io_uring"
							      : "threads",
			.direct = loaded.flags & LOADED_DIRECT,
			.registered = loaded.flags & LOADED_REGISTERED,
			.cached = loaded.flags & LOADED_CACHED,
			.not_kept = not_kept_text(loaded.not_kept),
		};
	return 0;
}

int tarn_store_load(tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_tensor **ret_all)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	struct tarn_layout layout;
	struct tarn_load_info info;
	int64_t size;
	int r = RESERVED_CHECK("tarn_load_options", options);

	if (r < 0)
		return r;
	if (file_is_index(file))
		return store_load_shards(
			store, file, options, ret_info, ret_all);
	r = store_load_storage(store, file, options, &info, &storage);
	if (r >= 0 && ret_all) {
		size = (int64_t)tarn_storage_size(storage);
		r = tarn_layout_contiguous(TARN_U8, 1, &size, &layout);
		if (r >= 0)
			r = tarn_tensor_new(storage, 0, &layout, ret_all);
	}
	if (r >= 0 && ret_info)
		*ret_info = info;
	return r < 0 ? r : 0;
}
