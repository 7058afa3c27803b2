/* SPDX-License-Identifier: MIT */
/*
 * Accounts of users: what each has, and what it may have. user is the domain
 * of a user's own memory, where its account lies, also for work in other
 * pools.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config/quota_limits.h"
#include "daemon/loop/log_budget.h"
#include "daemon/server/account/admission.h"

struct client;
struct domain;
struct server;
struct table_storage;
struct wire_message;

/* Requests for a check that wait: inspect/check_queue.c. */
struct checks {
	struct check_wait *waiting;
	struct deadline turn;
	uint64_t not_before;   /* loop_now() */
	uint64_t settle_until; /* 0: no check was put off */
};

/* What is a user's, in whatever pool. */
struct account {
	uint32_t uid; /* for sentences */
	struct quota quota;
	uint64_t used[QUOTA_KINDS];
	uint64_t awaited[QUOTA_KINDS]; /* in tables, by its publications */
	uint32_t n_connected;          /* clients */
	struct admitted admitted;      /* of its requests */
	struct admission_queue waiting[ADMISSION_KINDS];
	uint64_t n_in_flight;  /* descriptors that clients have not read */
	uint64_t round, spent; /* of the server's time: client/quantum.c */
	struct checks checks;
	struct log_budget lines; /* that it causes */
};

/* From the configuration: of one, of all. */
void quota_set(struct domain *user);
void quota_set_all(struct server *server);

/* The domain where the user's account lies; NULL: it could not be made. */
struct domain *quota_user(struct domain *domain, uint32_t uid);
/* May the user have n more? -EDQUOT with a sentence. charge takes them, too. */
int quota_check(
	const struct account *account, enum quota_kind kind, uint64_t n);
int quota_charge(struct account *account, enum quota_kind kind, uint64_t n);
void quota_return(struct account *account, enum quota_kind kind, uint64_t n);
/* The same as check, without a sentence. */
bool quota_fits(
	const struct account *account, enum quota_kind kind, uint64_t n);

/* May a line be logged that this user causes, or one of the pool? Ask before
 * any line that a client can cause. */
bool quota_may_log(struct domain *user);

/* It is there; or it is gone. */
void quota_count_storage(struct domain *domain, uint32_t index, bool there);
/* The user that is charged; from now on that one, even beyond its quota. */
uint32_t quota_payer(const struct domain *domain, uint32_t index);
void quota_hand_on(struct domain *domain, uint32_t index, uint32_t uid);
/* The same, and the user owns it. */
void quota_own(struct domain *domain, uint32_t index, uint32_t uid);

/* account/name_payers.c */
/* How many names of a domain each user has published, in order. */
struct name_account {
	uint32_t uid;
	uint64_t n;
};
struct name_accounts {
	struct name_account *v;
	uint32_t n, room;
};
uint64_t name_accounts_get(const struct name_accounts *accounts, uint32_t uid);
/* -ENOMEM, and only for a uid that was never added. */
int name_accounts_add(struct name_accounts *accounts, uint32_t uid, int64_t n);
void name_accounts_free(struct name_accounts *accounts);
/* There are n names more of that publisher's, or fewer. */
void quota_count_names(struct domain *domain, uint32_t publisher, int64_t n);
/* One that stands in a table that is taken over; and when all domains have
 * come, what was found is charged. */
int quota_find_name(struct domain *domain, uint32_t publisher);
void quota_found_names(struct domain *domain);

/* One that is kept until it is done with: its bytes and descriptors, all of
 * it or nothing. */
int quota_charge_message(
	struct domain *user, const struct wire_message *message);

/* Before a long one is taken, or such an answer made. -EDQUOT. */
int quota_check_message(const struct domain *user, uint64_t size);
/* Charges for the answers that a client has not read, even beyond the quota:
 * they were promised when its requests were accepted. */
void quota_count_answers(struct client *client);

/* account/quantum.c: the server's time, among users */
void quantum_join(struct client *client);
void quantum_leave(struct client *client);
/* A turn of the loop begins. */
void quantum_turn(struct server *server);
/* Is it another user's turn? The client is served in a later one. */
bool quantum_is_spent(const struct client *client);
/* The server has worked for that user since began (loop_now()). What a client's
 * message leaves for later, such as a publication that waits, counts as well. */
void quantum_spend(struct domain *user, uint64_t began);
