/* SPDX-License-Identifier: MIT */
/*
 * Requests about loads: a client starts one, cancels it, or disconnects.
 *
 * A load without clients stops as soon as nothing of it can be in flight; if
 * other loads share its bytes, it goes on for them.
 */
#include "daemon/server/load/internal.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/fail.h"

/* Descriptors whose close hangs: the server takes no more then. */
#define CLOSER_WEDGED 256u

/* ---- it begins --------------------------------------------------------- */

static int may_start(struct client *client)
{
	bool many;

	if (client->domain->server->drain.draining)
		return tarn_fail(ESHUTDOWN, "the daemon is ending; start it "
					    "again and load again");
	if (closer_is_stuck(client->user->closer, CLOSER_WEDGED, &many))
		return tarn_fail(EBUSY,
			"the file system of %u earlier files "
			"does not let them be closed",
			CLOSER_WEDGED);
	return 0;
}

/* No bytes: nothing to read, nothing to identify. All empty files share one
 * storage; otherwise a client could fill the table by loading empty files. */
static void load_nothing(struct load *load)
{
	struct domain *domain = load->domain;
	int r;

	if (cache_has(domain, domain->loading.nothing,
		    domain->loading.nothing_generation))
		return load_succeed(load, domain->loading.nothing,
			domain->loading.nothing_generation, 0, 0);
	r = load_add_storage(load, 0, 0);
	if (r < 0)
		return load_refuse(load, r);
	domain->loading.nothing = load->bytes.index;
	domain->loading.nothing_generation = load->bytes.generation;
	storage_set(domain, load->bytes.index, STORAGE_LIVE);
	cache_keep(domain, load->bytes.index);
	load_succeed(load, load->bytes.index, load->bytes.generation, 0, 0);
}

static int charge(struct domain *user, const struct wire_message *message)
{
	int r = quota_charge(&user->account, QUOTA_LOADS, 1);

	if (r == 0) {
		r = quota_charge_message(user, message);
		if (r < 0)
			quota_return(&user->account, QUOTA_LOADS, 1);
	}
	return r;
}

static void answer_again(struct load *load, const struct msg_loaded *loaded)
{
	client_reply(load->client,
		WIRE_OUT(WIRE_LOADED, load->serial, loaded, sizeof(*loaded)));
	load_free(load);
}

/* Once more at the end; but here nothing was read for it yet, and nothing
 * dropped. */
static int check_names(const struct load *load)
{
	int r;

	/* They are their publishers' already, or do not move. */
	if (load->copy.moves)
		return 0;
	r = names_check_channels(load->domain, &load->names);
	return r < 0 || !load->names.n
		       ? r
		       : names_check_quota(load->domain, &load->names,
				 load->user->spec.uid);
}

static void begin(struct load *load)
{
	int r = check_names(load);

	load->state = LOAD_NEW;
	load->cpu_start = load_cpu_now();
	if (r < 0)
		load_refuse(load, r);
	else if (load->n_ranges == 0)
		load_nothing(load);
	else if ((r = load_identify(load, 0)) < 0)
		load_give_up(load, r);
}

static void admitted(struct admission *admission)
{
	begin((struct load *)((char *)admission -
			      offsetof(struct load, admission)));
}

static struct load *load_new(
	struct client *client, struct wire_message *message)
{
	struct load *load = calloc(1, sizeof(*load));

	if (!load)
		return NULL;
	load->domain = client->domain;
	load->user = client->user;
	load->client = client;
	load->serial = message->serial;
	load->wait.domain = client->domain;
	load->wait.user = client->user;
	load->wait.done = load_waited;
	load->admission = (struct admission) {.user = client->user,
		.kind = ADMISSION_LOADS,
		.n = 1,
		.n_fds = (uint32_t)message->n_fds,
		.begin = admitted};
	load->began_at = loop_now();
	load->n_fds = (uint32_t)message->n_fds;
	load->fds[0] = wire_take_fd(message, 0);
	load->fds[1] = wire_take_fd(message, 1);
	load->message = *message;
	*message = (struct wire_message) {0};
	return load;
}

/* From here on it counts. */
static int join(struct load *load)
{
	struct domain *domain = load->domain;
	int r = may_start(load->client);

	if (r == 0)
		r = load_copy_begin(load);
	if (r == 0)
		r = charge(load->user, &load->message);
	if (r < 0)
		return r;
	load->next = domain->loading.loads;
	domain->loading.loads = load;
	load->client->n_loads++;
	load->joined = true;
	return 0;
}

/* Not for a load that may have been done. */
static int check_count(const struct load *load)
{
	const struct msg_load *head =
		(const struct msg_load *)load->message.body;

	return load->message.again || head->flags & LOAD_MOVE
		       ? 0
		       : names_check_count(load->domain, head->n_names,
				 load->user->spec.uid);
}

/* A load that was done is answered before any limit can refuse it. */
void load_start(struct client *client, struct wire_message *message)
{
	struct load *load = load_new(client, message);
	struct msg_loaded loaded;
	int r;

	if (!load)
		return client_refuse(client, message->serial,
			tarn_fail(ENOMEM, "out of memory"));
	r = check_count(load);
	if (r == 0)
		r = load_parse(load);
	if (r < 0)
		return load_refuse(load, r);
	if (load->message.again && load_was_done(load, &loaded))
		return answer_again(load, &loaded);
	r = join(load);
	if (r < 0) {
		client_refuse(client, load->serial, r);
		return load_free(load);
	}
	if (admission_ask(&load->admission))
		begin(load);
}

/* ---- it is not wanted ---------------------------------------------------- */

static void stop_load(struct load *load)
{
	struct msg_job job = {.job = load->job};

	if (load->client)
		load->client->n_loads--;
	load->client = NULL;
	switch (load->state) {
	case LOAD_UNADMITTED:
	case LOAD_NEW:
	case LOAD_WAITING:
	case LOAD_SHARING:
		if (load_is_shared(load))
			return;
		load_drop_from_loader(load);
		load_give_back(load);
		load_free(load);
		return;
	case LOAD_IDENTIFYING:
	case LOAD_FILLING:
		/* Others want its bytes: it goes on for them. */
		if (load_is_shared(load))
			return;
		load->state = LOAD_DROPPING;
		load->reading.last_message_at = loop_now();
		loader_command(
			load->loader, L_DROP, &job, sizeof(job), NULL, 0);
		return;
	case LOAD_DROPPING:
		return;
	}
}

void load_cancel(struct client *client, uint32_t serial)
{
	struct load *load;

	for (load = client->domain->loading.loads; load; load = load->next)
		if (load->client == client && load->serial == serial)
			break;
	if (!load)
		return;
	tarn_fail(ECANCELED, "the load was cancelled");
	client_refuse(client, serial, ECANCELED);
	stop_load(load);
}

void load_orphan(struct client *client)
{
	struct load *load, *next;

	for (load = client->domain->loading.loads; load; load = next) {
		next = load->next;
		if (load->client == client)
			stop_load(load);
	}
}
