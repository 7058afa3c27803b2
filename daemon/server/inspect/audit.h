/* SPDX-License-Identifier: MIT */
/*
 * Checks the accounts: what is counted as it changes is counted again here, by
 * looking at everything. An account that is not exact refuses a user what it
 * may have, or gives it more, for as long as the server lives.
 *
 * In between two events all figures agree, so no client need be kept from
 * anything for it.
 */
#pragma once

#include <stdint.h>

struct domain;
struct faults;
struct name_accounts;
struct server;

/* What the user has: it must be charged for exactly that. */
void audit_user(const struct domain *user, struct faults *faults);
/* The publishers of a domain's names; the caller has found these. */
void audit_names(const struct domain *domain, const struct name_accounts *seen,
	struct faults *faults);
/* The sums over all users. */
void audit_server(const struct server *server, struct faults *faults);

/* check_queue.c: bytes that the user's waiting checks are charged with */
uint64_t check_charged(const struct domain *user);
