/* SPDX-License-Identifier: MIT */
/*
 * Loaders that hang in a file are killed.
 *
 * A loader that owes an answer for HUNG_NS is killed, and others do its work
 * from the beginning. One of its loads held it up: the one whose file it had to
 * look at, or one of those that it had begun to read; others had waited for a
 * place behind these. Each of these gets a loader of its own, in which it
 * delays no other load, even if it takes very long: so a file that is only slow
 * is loaded in the end, and only one that is dead is not.
 */
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

#define HUNG_MAX 16u /* killed ones of a uid that do not end; picked */

/* The load whose L_FILE has waited longest; answers come in order. */
static struct load *first_asked(const struct loader *loader)
{
	struct load *load, *first = NULL;

	for (load = loader->domain->loading.loads; load; load = load->next)
		if (load->loader == loader && load->reading.asked_at &&
			(!first || load->job < first->job))
			first = load;
	return first;
}

/* Does the loader read for it? Also for one that is not wanted any more, until
 * nothing of it is in flight. */
static bool is_read(const struct load *load, const struct loader *loader)
{
	return load->loader == loader &&
	       (load->state == LOAD_FILLING || load->state == LOAD_DROPPING);
}

/* An event in the same turn may be later than the turn's time. */
static bool is_long_ago(uint64_t at, uint64_t now)
{
	return now > at && now - at >= HUNG_NS;
}

/* It reads, and nothing has come of any of it for a while. */
static bool stalled(const struct loader *loader, uint64_t now)
{
	bool reads = false;

	for (const struct load *l = loader->domain->loading.loads; l;
		l = l->next) {
		if (!is_read(l, loader))
			continue;
		reads = true;
		if (!is_long_ago(l->reading.last_message_at, now))
			return false;
		/* One that is wanted may take its time if it is alone. */
		if (loader->alone && l->state == LOAD_FILLING)
			return false;
	}
	return reads;
}

static bool hangs(const struct loader *loader, uint64_t now)
{
	const struct load *first = first_asked(loader);

	if (loader->mapper.n_forgetting &&
		is_long_ago(loader->mapper.forget_at, now))
		return true;
	if (first && !loader->alone &&
		is_long_ago(first->reading.asked_at, now))
		return true;
	return stalled(loader, now);
}

static void end_hanging(struct loader *loader)
{
	struct msg_loader which = {.number = loader->number};
	const struct load *first = first_asked(loader);

	log_warning("loader_hangs", log_i64("pid", loader->pid),
		log_u64("jobs", loader->n_jobs));
	for (struct load *l = loader->domain->loading.loads; l; l = l->next)
		if (l->loader == loader) {
			l->reading.alone |= l == first || l->reading.begun;
			/* It is not the file of all that kills loaders. */
			l->reading.retried = false;
		}
	loader->hung = true;
	server_send_keeper(loader->domain->server, D_LOADER_KILL, &which,
		sizeof(which), NULL, 0);
	loader_died(loader);
}

static uint32_t count_hung(const struct loader *of)
{
	uint32_t n = 0;

	for (const struct loader *l = of->domain->loading.loaders; l;
		l = l->next)
		n += l->hung && l->user == of->user;
	return n;
}

/* One a call: much may have changed after it. The next call is soon. */
void loader_check(struct domain *domain, uint64_t now)
{
	struct loader *l = domain->loading.loaders;

	while (l &&
		(l->sock < 0 || !hangs(l, now) || count_hung(l) >= HUNG_MAX))
		l = l->next;
	if (l)
		end_hanging(l);
}
