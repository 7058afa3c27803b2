/* SPDX-License-Identifier: MIT */
/*
 * How far a load is: progress that is sent to its client, and to the clients
 * of loads that share its bytes.
 */
#include "base/checked.h"
#include "daemon/server/load/internal.h"

static void report_bytes(struct load *load, const struct load *reads)
{
	struct msg_loading loading = {
		.phase = LOADING_BYTES,
		.index = reads->bytes.index,
		.generation = reads->bytes.generation,
		.total = load->size,
	};

	if (load->client && !load->told.loading)
		client_reply(load->client, WIRE_OUT(WIRE_LOADING, load->serial,
						   &loading, sizeof(loading)));
	load->told.loading = true;
}

void load_send_loading(struct load *load)
{
	report_bytes(load, load);
	for (struct load *l = load->domain->loading.loads; l; l = l->next)
		if (l->state == LOAD_SHARING && l->share.with == load)
			report_bytes(l, load);
}

void load_memory(
	const struct load *load, uint64_t *ret_ready, uint64_t *ret_wanted)
{
	const struct load *reads = load->share.with ? load->share.with : load;
	const struct domain *domain = load->domain;
	bool waits = reads->wait.queued;

	*ret_wanted = waits ? domain->growth.asked.bytes : 0;
	*ret_ready = MIN(domain->growth.grown, *ret_wanted);
}

void load_send_memory(struct load *load)
{
	struct msg_loading loading = {
		.phase = LOADING_MEMORY, .total = load->size};

	load_memory(load, &loading.ready, &loading.wanted);
	/* Once for each segment: a client that does not read its socket must
	 * not make us queue more. */
	if (!load->client || !loading.wanted ||
		loading.ready + 1 == load->told.memory)
		return;
	load->told.memory = loading.ready + 1;
	client_reply(load->client, WIRE_OUT(WIRE_LOADING, load->serial,
					   &loading, sizeof(loading)));
}

void load_memory_comes(struct domain *domain, uint64_t bytes)
{
	/* Both are bounded by the pool's addresses. */
	domain->growth.grown += bytes;
	for (struct load *load = domain->loading.loads; load; load = load->next)
		load_send_memory(load);
}
