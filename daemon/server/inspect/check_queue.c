/* SPDX-License-Identifier: MIT */
/*
 * When a check is made, and for whom.
 *
 * All clients wait while it is made, so checks may take only a small part of the
 * server's time. A request waits for its user's turn, and each check answers all
 * of the user's requests that wait for the same one.
 *
 * One look is exact but for one thing. A storage that only leases hold must have
 * one, and a release whose message is still in a client's socket looks as if
 * there were none. So a check begins when there is no such storage, or after a
 * while: what has no holder then is a fault.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server/inspect/audit.h"
#include "daemon/server/server.h"
#include "shm/table_check.h"

#define CHECK_SHARE 10u /* a tenth of the time at most; picked */
/* Picked: a message of a client on a machine that is overloaded has arrived. */
#define SETTLE_NS 300000000ull
#define LOOK_NS 20000000ull

struct check_wait {
	struct check_wait *next;
	struct client *client;
	uint32_t serial;
};

static void set_turn(struct domain *user, uint64_t at);

/* What began then is over. */
static uint64_t next_turn(uint64_t began)
{
	uint64_t now = loop_now();

	return now + CHECK_SHARE * (now - began);
}

/* Its own pool; NULL: all, for root and the daemon's user. */
static struct domain *domain_of(const struct client *client)
{
	return client->uid == 0 || client->uid == geteuid() ? NULL
							    : client->domain;
}

static bool is_settled(struct server *server, struct domain *only)
{
	bool settled = true;

	for (struct domain *domain = server->domains; domain;
		domain = domain->next)
		if (!only || domain == only)
			settled &= self_check_is_settled(domain);
	return settled;
}

/* Begun at the first look. */
static bool is_worth_waiting(struct checks *checks, uint64_t now)
{
	if (!checks->settle_until)
		checks->settle_until = now + SETTLE_NS;
	return now < checks->settle_until;
}

/* ---- answers ----------------------------------------------------------- */

static void take_out(struct check_wait **at)
{
	struct check_wait *wait = *at;

	*at = wait->next;
	quota_return(
		&wait->client->user->account, QUOTA_REQUESTS, sizeof(*wait));
	free(wait);
}

/* r, with its sentence: the check could not be made. */
static void answer(struct client *client, uint32_t serial,
	const struct msg_checked *sum, const struct faults *faults, int r)
{
	if (r >= 0)
		r = self_check_send(client, serial, sum, faults);
	if (r < 0)
		client_refuse(client, serial, r);
}

static void answer_all(struct domain *user, const struct domain *only,
	const struct msg_checked *sum, const struct faults *faults, int r)
{
	_cleanup_free_ char *why = r < 0 ? strdup(tarn_fail_message()) : NULL;
	struct check_wait **at = &user->account.checks.waiting;

	while (*at) {
		struct client *client = (*at)->client;
		uint32_t serial = (*at)->serial;

		if (domain_of(client) != only) {
			at = &(*at)->next;
			continue;
		}
		take_out(at);
		if (r < 0)
			tarn_fail_verbatim(-r, why ? why : "out of memory");
		answer(client, serial, sum, faults, r);
	}
}

uint64_t check_charged(const struct domain *user)
{
	uint64_t n = 0;

	for (const struct check_wait *wait = user->account.checks.waiting; wait;
		wait = wait->next)
		n += sizeof(*wait);
	return n;
}

/* ---- turns ------------------------------------------------------------- */

/* Of those that wait, the one that has waited longest says what is checked. */
static void make_check(void *arg)
{
	struct domain *user = arg;
	struct checks *checks = &user->account.checks;
	struct client *client = checks->waiting->client;
	struct domain *only = domain_of(client);
	uint64_t began = loop_now();
	struct msg_checked sum = {0};
	struct faults faults = {0};
	int r;

	if (!is_settled(user->server, only) &&
		is_worth_waiting(checks, began)) {
		quantum_spend(user, began);
		return set_turn(user, MAX(began + LOOK_NS, next_turn(began)));
	}
	checks->settle_until = 0;
	r = self_check(user->server, only, &faults, &sum);
	checks->not_before = next_turn(began);
	quantum_spend(user, began);
	answer_all(user, only, &sum, &faults, r);
	faults_clear(&faults);
	if (checks->waiting)
		set_turn(user, checks->not_before);
}

static void set_turn(struct domain *user, uint64_t at)
{
	deadline_call(loop_deadlines(user->server->loop),
		&user->account.checks.turn, at, make_check, user);
}

int check_take(struct client *client, uint32_t serial)
{
	struct domain *user = client->user;
	struct checks *checks = &user->account.checks;
	struct check_wait **at = &checks->waiting, *wait;
	int r = quota_charge(&user->account, QUOTA_REQUESTS, sizeof(*wait));

	if (r < 0)
		return r;
	wait = malloc(sizeof(*wait));
	if (!wait) {
		quota_return(&user->account, QUOTA_REQUESTS, sizeof(*wait));
		return tarn_fail(ENOMEM, "check: out of memory");
	}
	*wait = (struct check_wait) {.client = client, .serial = serial};
	while (*at)
		at = &(*at)->next;
	*at = wait;
	if (!checks->turn.at)
		set_turn(user, MAX(loop_now(), checks->not_before));
	return 0;
}

void check_orphan(struct client *client)
{
	struct domain *user = client->user;
	struct check_wait **at = &user->account.checks.waiting;

	while (*at)
		if ((*at)->client == client)
			take_out(at);
		else
			at = &(*at)->next;
	if (!user->account.checks.waiting)
		deadline_set(loop_deadlines(user->server->loop),
			&user->account.checks.turn, 0);
}
