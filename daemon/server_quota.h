/* SPDX-License-Identifier: MIT */
/*
 * Accounts of users: what each has, and what he may have. home is the rule of
 * a user's own memory, where his account lies, whichever pool he works in.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/quota.h"

struct client;
struct faults;
struct name_list;
struct rule;
struct server;
struct table_storage;
struct wire_message;

/* From the configuration: of one, of all. */
void quota_set(struct rule *home);
void quota_set_all(struct server *server);

/* The rule where his account lies; NULL: it could not be made. */
struct rule *quota_home(struct rule *rule, uint32_t uid);
/* May he have n more? -EDQUOT with a sentence. charge takes them, too. */
int quota_check(const struct rule *home, enum quota_kind kind, uint64_t n);
int quota_charge(struct rule *home, enum quota_kind kind, uint64_t n);
void quota_return(struct rule *home, enum quota_kind kind, uint64_t n);
/* The same as check, for what is in tables: drops files of his that nobody
 * uses, until they fit. */
int quota_make_room(struct rule *home, enum quota_kind kind, uint64_t n);

/* Before an entry is made; storage_new asks. */
int quota_check_storage(struct rule *rule, const struct table_storage *entry);
/* It is there; or it is gone. */
void quota_count_storage(struct rule *rule, uint32_t index, bool there);
/* Who is charged for it; from now on that one is, whatever his quota. */
uint32_t quota_payer(const struct rule *rule, uint32_t index);
void quota_hand_on(struct rule *rule, uint32_t index, uint32_t uid);
/* The same, and it is his. */
void quota_own(struct rule *rule, uint32_t index, uint32_t uid);

/* server_quota_names.c */
/* How many names of a rule are whose, in order. */
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
/* Whose a name is that leads to that storage; publisher may be TABLE_NOBODY. */
uint32_t quota_name_payer(
	const struct rule *rule, uint32_t index, uint32_t publisher);
/* n names more of that publisher's, or fewer, lead to it. */
void quota_count_names(
	struct rule *rule, uint32_t index, uint32_t publisher, int64_t n);
/* Before he publishes names. */
int quota_check_names(
	struct rule *rule, uint32_t uid, const struct name_list *names);
/* One that stands in a table that is taken over; and when all rules have come,
 * what was found is charged. */
int quota_find_name(struct rule *rule, uint32_t index, uint32_t publisher);
void quota_found_names(struct rule *rule);

/* server_quota_check.c: whose names there really are in a rule is given. */
void quota_check_books(const struct rule *rule,
	const struct name_accounts *whose, struct faults *faults);

/* One that is kept until it is done with: its bytes and descriptors, all of
 * it or nothing. */
int quota_charge_message(struct rule *home, const struct wire_message *message);

/* Counts what a client has half said and not yet read. -EDQUOT: too much of
 * it lies here for his user. */
int quota_messages(struct client *client);
