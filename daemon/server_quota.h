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
struct name_list;
struct rule;
struct server;
struct table_storage;
struct wire_message;

/* From the configuration: of one, of all. */
void quota_set(struct rule *home);
void quota_set_all(struct server *server);

/* May he have n more? -EDQUOT with a sentence. charge takes them, too. */
int quota_check(const struct rule *home, enum quota_kind kind, uint64_t n);
int quota_charge(struct rule *home, enum quota_kind kind, uint64_t n);
void quota_return(struct rule *home, enum quota_kind kind, uint64_t n);
/* The same as check, for what is in tables: drops files of his that nobody
 * uses, until they fit. */
int quota_make_room(struct rule *home, enum quota_kind kind, uint64_t n);

/* Before an entry is made; storage_new asks. */
int quota_check_storage(struct rule *rule, const struct table_storage *entry);
/* It is there, with the names that it has; or it is gone. */
void quota_count_storage(struct rule *rule, uint32_t index, bool there);
/* n names more, or fewer, lead to it. */
void quota_count_names(struct rule *rule, uint32_t index, int64_t n);
/* Before names are published onto storages of that owner. */
int quota_check_names(
	struct rule *rule, uint32_t owner, const struct name_list *names);

/* One that is kept until it is done with: its bytes and descriptors, all of
 * it or nothing. */
int quota_charge_message(
	struct rule *home, const struct wire_message *message);

/* Counts what a client has half said and not yet read. -EDQUOT: too much of
 * it lies here for his user. */
int quota_messages(struct client *client);
