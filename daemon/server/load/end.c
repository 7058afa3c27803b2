/* SPDX-License-Identifier: MIT */
/*
 * How a load ends: with its names published and an answer, or with a sentence.
 *
 * In both cases the loads that share its bytes end with it, the memory that it
 * took of the pool gets a holder or goes back, and its descriptors go to the
 * closer, since closing them may hang in a file system.
 */
#include "daemon/server/load/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "daemon/loop/log.h"

uint64_t load_cpu_now(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void load_leave_loader(struct load *load)
{
	if (load->loader)
		loader_job_done(load->loader);
	load->loader = NULL;
}

/* It counts nowhere any more. */
static void leave(struct load *load)
{
	struct domain *domain = load->domain;
	struct load **p;

	for (p = &domain->loading.loads; *p != load; p = &(*p)->next)
		;
	*p = load->next;
	admission_end(&load->admission);
	if (load->client)
		load->client->n_loads--;
	quota_return(&load->user->account, QUOTA_LOADS, 1);
	quota_return(&load->user->account, QUOTA_DESCRIPTORS, load->n_fds);
	quota_return(&load->user->account, QUOTA_REQUESTS, load->message.size);
}

void load_free(struct load *load)
{
	memory_cancel(&load->wait);
	load_copy_end(load);
	load_awaited(load);
	if (load->joined)
		leave(load);
	load_leave_loader(load);
	closer_close(load->user->closer, load->fds[0]);
	closer_close(load->user->closer, load->fds[1]);
	for (int i = 0; i < load->message.n_fds; i++)
		closer_close(
			load->user->closer, wire_take_fd(&load->message, i));
	wire_message_clear(&load->message);
	free(load->label);
	free(load);
}

void load_refuse(struct load *load, int error)
{
	load->domain->server->totals.failed++;
	if (quota_may_log(load->user))
		log_warning("load_failed", log_text("label", load->label),
			log_text("error", tarn_fail_message()));
	if (load->client)
		client_refuse(load->client, load->serial, error);
	load_free(load);
}

void load_succeed(struct load *load, uint32_t index, uint64_t generation,
	uint32_t flags, uint64_t cpu_ns)
{
	struct domain *domain = load->domain;
	const struct table_storage *entry = &domain->table.storages[index];
	struct msg_loaded loaded = {
		.index = index,
		.pool = entry->pool,
		.generation = generation,
		.base = entry->base,
		.size = entry->size,
		.flags = flags,
		.not_kept = load_not_kept(load),
	};
	int r = load->client ? load_publish(load, index, generation) : 0;

	if (r < 0)
		return load_refuse(load, r);
	storage_used(domain, index);
	loaded.flags |= storage_info(domain, index)->flags;
	loaded.cpu_ns = cpu_ns + load_cpu_now() - load->cpu_start;
	domain->server->totals.loads++;
	if (flags & LOADED_CACHED)
		domain->server->totals.cached++;
	if (quota_may_log(load->user))
		log_info("load_done", log_text("label", load->label),
			log_u64("bytes", entry->size),
			log_u64("cached", !!(flags & LOADED_CACHED)),
			log_u64("names", load->names.n));
	if (load->client)
		client_reply(load->client, WIRE_OUT(WIRE_LOADED, load->serial,
						   &loaded, sizeof(loaded)));
	load_free(load);
}

void load_drop_from_loader(struct load *load)
{
	struct msg_job job = {.job = load->job};

	if (load->loader)
		loader_command(
			load->loader, L_DROP, &job, sizeof(job), NULL, 0);
	load_leave_loader(load);
}

/* The server gives up on it; other than after L_FAILED, the loader still holds
 * the file. */
void load_give_up(struct load *load, int error)
{
	_cleanup_free_ char *why = strdup(tarn_fail_message());

	load_drop_from_loader(load);
	tarn_fail_verbatim(error, why ? why : "out of memory");
	load_failed(load, error);
}

void load_give_back(struct load *load)
{
	struct table_storage *entry =
		&load->domain->table.storages[load->bytes.index];

	if (!load->bytes.size)
		return;
	storage_info(load->domain, load->bytes.index)->filling = NULL;
	load->bytes.size = 0;
	/* Clients that wait for it may hold it; it is incomplete, and no file's
	 * bytes. */
	entry->file = (struct file_identity) {0};
	entry->flags &= ~STORAGE_KEPT;
	atomic_store_explicit(&entry->landed, 0, memory_order_relaxed);
	storage_release(load->domain, load->bytes.index);
	table_wake(load->domain->writer);
}

void load_failed(struct load *load, int error)
{
	_cleanup_free_ char *why = strdup(tarn_fail_message());

	load_finish_sharers(load, error);
	load_give_back(load);
	tarn_fail_verbatim(error, why ? why : "out of memory");
	load_refuse(load, error);
}
