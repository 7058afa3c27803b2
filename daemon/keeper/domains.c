/* SPDX-License-Identifier: MIT */
/*
 * Access domains: which users may see which pool, and the pool's control
 * region.
 *
 * The keeper makes the region and holds a writable descriptor of it, which
 * survives an exec and of which each server gets a copy, and another one for
 * clients. It does not have it mapped. A user without a domain gets one of its
 * own, which no other user can see, when it connects for the first time.
 *
 * The number of regions is limited, and the number of users is not. So when
 * all domains are taken, a new user takes over the domain of a user that has
 * no client and under which nothing is left: with a region of its own, so that
 * the new user can see nothing of the old one. The server reports that nothing
 * is left; the report counts as long as no client of the user has been
 * accepted since. A client of which the server did not know when it sent the
 * report is counted here, until the server reports that it has gone: so
 * nothing can have been put there in between.
 *
 * A server that lacks the descriptors or memory for a domain reports that, and
 * refuses the domain's clients. It is sent the domain again when another client
 * connects.
 */
#include "daemon/keeper/keeper.h"

#include <sys/random.h>

#include "base/fail.h"
#include "base/fd.h"
#include "base/page.h"
#include "daemon/loop/log.h"
#include "shm/segment.h"
#include "shm/table.h"

static int domain_create(
	struct keeper *keeper, uint32_t number, const struct pool_spec *spec)
{
	struct keeper_domain *domain = &keeper->domains[number];
	_cleanup_fd_ int fd = -1, ro = -1;
	struct table table;
	uint64_t seed;
	int r;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return tarn_fail(EIO, "no random numbers to be had");
	/* Sized by table_create, which knows how large a region is. */
	r = segment_create("tarn-table", PAGE, 12, &fd);
	if (r < 0)
		return r;
	r = table_create(fd, keeper->instance, seed, number, spec->uid, &table);
	if (r < 0)
		return r;
	table_unmap(&table);
	r = segment_seal_size(fd);
	if (r == 0)
		r = segment_reopen(fd, &ro);
	if (r < 0)
		return r;
	domain->spec = *spec;
	domain->fds[0] = fd_steal(&fd);
	domain->fds[1] = fd_steal(&ro);
	domain->pool_end = 0;
	return 0;
}

static void domain_free(struct keeper_domain *domain)
{
	domain->fds[0] = fd_close(domain->fds[0]);
	domain->fds[1] = fd_close(domain->fds[1]);
}

/* ---- messages to the server ---------------------------------------- */

static struct msg_domain message_of(
	const struct keeper *keeper, uint32_t number)
{
	return (struct msg_domain) {
		.domain = number, .spec = keeper->domains[number].spec};
}

static int announce(struct keeper *keeper, uint32_t number)
{
	struct msg_domain message = message_of(keeper, number);

	return keeper_send(keeper, D_DOMAIN, &message, sizeof(message),
		keeper->domains[number].fds, 2);
}

/* All of them, since a client that comes may be about to name another pool. */
static void announce_due(struct keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->n_domains; i++)
		if (keeper->domains[i].due)
			keeper->domains[i].due = announce(keeper, i) < 0;
}

void keeper_domains_replay(struct keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->n_domains; i++) {
		struct msg_domain message = message_of(keeper, i);

		keeper->domains[i].due = false;
		keeper_replay(keeper, D_DOMAIN, &message, sizeof(message),
			keeper->domains[i].fds, 2);
	}
}

/* ---- messages of the server -------------------------------------------- */

int keeper_domain_failed(struct keeper *keeper, const struct msg_domain *which)
{
	if (which->domain >= keeper->n_domains)
		return tarn_fail(
			EPROTO, "there is no domain %u", which->domain);
	keeper->domains[which->domain].due = true;
	return 0;
}

int keeper_domain_empty(struct keeper *keeper, const struct msg_domain *which)
{
	struct keeper_domain *domain;

	if (which->domain >= keeper->n_domains)
		return tarn_fail(
			EPROTO, "there is no domain %u", which->domain);
	domain = &keeper->domains[which->domain];
	domain->empty = !domain->n_clients;
	return 0;
}

bool keeper_may_log(struct keeper *keeper, uint32_t domain)
{
	uint32_t uid = UINT32_MAX;

	if (domain < keeper->n_domains && domain < DOMAINS_MAX)
		uid = keeper->domains[domain].spec.uid;
	else
		domain = DOMAINS_MAX;
	return log_may(
		&keeper->lines[domain], &keeper->deadlines, keeper_now(), uid);
}

/* ---- making them ------------------------------------------------------- */

static bool may_be_taken(const struct keeper *keeper, uint32_t number)
{
	const struct keeper_domain *domain = &keeper->domains[number];

	/* A dead server's growth is finished, and becomes this one's. */
	if (keeper->memory.growing.mapped.addr &&
		keeper->memory.growing.mapped.domain == number)
		return false;
	return domain->empty && !domain->n_clients && !domain->allocated &&
	       !domain->spec.name[0] && !domain->due && !domain->grow.asked;
}

/* Gives the domain of a departed user to another user, with a new region. */
static int take_over(
	struct keeper *keeper, uint32_t number, const struct pool_spec *spec)
{
	struct keeper_domain *domain = &keeper->domains[number], old = *domain;
	int r;

	*domain = (struct keeper_domain) {.fds = {-1, -1}};
	r = domain_create(keeper, number, spec);
	if (r == 0) {
		r = announce(keeper, number);
		if (r < 0)
			domain_free(domain);
	}
	if (r < 0) {
		*domain = old;
		return r;
	}
	if (keeper_may_log(keeper, DOMAINS_MAX))
		log_info("domain_taken_over", log_u64("domain", number),
			log_u64("uid", spec->uid), log_u64("of", old.spec.uid));
	domain_free(&old);
	return 0;
}

/* All are in use, but for those under which nothing is left. */
static int find_and_take_over(struct keeper *keeper,
	const struct pool_spec *spec, uint32_t *ret_domain)
{
	for (uint32_t i = 0; i < keeper->n_domains; i++)
		if (may_be_taken(keeper, i)) {
			*ret_domain = i;
			return take_over(keeper, i, spec);
		}
	return tarn_fail(EUSERS,
		"%u users and pools are served that have tensors or clients "
		"here, which is the limit",
		DOMAINS_MAX);
}

int keeper_domain_add(struct keeper *keeper, const struct pool_spec *spec,
	uint32_t *ret_domain)
{
	uint32_t number = keeper->n_domains;
	int r;

	if (number == DOMAINS_MAX)
		return find_and_take_over(keeper, spec, ret_domain);
	r = domain_create(keeper, number, spec);
	if (r < 0)
		return r;
	keeper->n_domains++;
	r = announce(keeper, number);
	if (r < 0) {
		/* A domain that is never sent to the server would shut its user
		 * out for good. */
		domain_free(&keeper->domains[--keeper->n_domains]);
		return r;
	}
	*ret_domain = number;
	return 0;
}

uint32_t keeper_domain_of(const struct keeper *keeper, uint32_t uid)
{
	for (uint32_t i = 0; i < keeper->n_domains; i++) {
		const struct pool_spec *s = &keeper->domains[i].spec;

		if (!s->name[0] && s->uid == uid)
			return i;
	}
	return DOMAINS_MAX;
}

int keeper_domain_for(struct keeper *keeper, uint32_t uid, uint32_t *ret_domain)
{
	struct pool_spec spec = {
		.uid = uid,
		.mode = 0600,
		.segment_max = keeper->options.segment_max,
		.placement = keeper->options.placement,
		.flags = keeper->options.registers ? POOL_REGISTER : 0,
	};

	announce_due(keeper);
	*ret_domain = keeper_domain_of(keeper, uid);
	return *ret_domain < DOMAINS_MAX
		       ? 0
		       : keeper_domain_add(keeper, &spec, ret_domain);
}

void keeper_domains_free(struct keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->n_domains; i++)
		domain_free(&keeper->domains[i]);
	keeper->n_domains = 0;
}
