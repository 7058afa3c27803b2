/* SPDX-License-Identifier: MIT */
/*
 * The names in a client's message (struct msg_name of shm/messages.h): checked
 * once, all of them, and then read one by one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tarn/layout.h>

struct domain;
struct tarn_descriptor;

/* Where they lie in a message that the owner keeps. */
struct name_list {
	const char *verb; /* "load", for sentences */
	const unsigned char *at, *end;
	uint32_t n;
};

/* One of them, unpacked; the name lies in the message. */
struct named {
	const char *name;
	uint32_t name_size;
	uint32_t source; /* which of the message's */
	uint64_t base;
	struct tarn_layout layout;
};

/* Reads the one at *at, which moves on. -EPROTO, -EINVAL. */
int name_next(const struct name_list *names, const unsigned char **at,
	struct named *ret);

/*
 * All are names, with layouts that reach no byte beyond sizes[source], and no
 * two are the same. *ret_end is where they end. -EINVAL, -ERANGE, -EPROTO.
 */
int names_check(const struct name_list *names, const uint64_t *sizes,
	uint32_t n_sizes, const unsigned char **ret_end);

/* The same again, sorted by name, malloc'ed. */
int names_sorted(const struct name_list *names, struct named **ret);
/* Is it among them? */
bool names_have(const struct named *sorted, uint32_t n, const char *name,
	size_t name_size);

/* None of them may be an open channel's: -EBUSY. */
int names_check_channels(
	const struct domain *domain, const struct name_list *names);

/* May that user ever have so many? Before they are read, which takes long where
 * they are many. -EDQUOT. */
int names_check_count(struct domain *domain, uint32_t n, uint32_t uid);
/* May that user have them, with those that it has already? -EDQUOT, -ENOMEM. */
int names_check_quota(
	struct domain *domain, const struct name_list *names, uint32_t uid);

/* What is published under it, once its storage is in the table. */
void name_describe(const struct domain *domain, uint32_t index,
	uint64_t generation, const struct named *named,
	struct tarn_descriptor *ret);
