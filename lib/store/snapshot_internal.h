/* SPDX-License-Identifier: MIT */
/*
 * An unfinished snapshot: the names that it has so far, each with a lease on
 * the tensor that one commit left under it.
 */
#pragma once

#include <tarn/snapshot.h>

#include "lib/store/store.h"

/* One name. */
struct taken {
	uint64_t record; /* its offset in the table */
	uint64_t commit; /* that wrote the held version */
	uint64_t version;
	uint64_t at;         /* the held version stood after this commit */
	bool hot;            /* it was overtaken once: it is opened first */
	tarn_tensor *tensor; /* NULL: nothing is held */
	size_t size;
	char *name;
};

struct taken_list {
	struct taken **v;
	size_t n, room;
};

struct taking {
	tarn_store *store;
	const char *prefix; /* NULL: exactly the names in all */
	size_t prefix_size;
	bool originals;        /* no replicas of them */
	uint64_t at;           /* the commit of this round */
	bool lost;             /* some name was overtaken in this round */
	struct taken_list all; /* by record, if there is a prefix */
	struct taken_list hot; /* the most recently overtaken one first */
	struct table_row row;  /* the last row that was read */
};

/* -EAGAIN: it takes too long. until: of clock_ms(), after which no more than the
 * first rounds begin; INT64_MAX: none is given. What was held stays held, and the
 * next run goes on from there. */
int taking_run(struct taking *t, int64_t until);
/* What it has. keep: it has that afterwards, too. */
int taking_hand_out(struct taking *t, bool keep, struct tarn_snapshot **ret);
void taking_done(struct taking *t);

/* ---- snapshot_hold.c: one name --------------------------------------- */

/* NULL: out of memory. */
struct taken *taken_new(const char *name, size_t size);
/* Takes NULL and returns NULL. */
struct taken *taken_free(struct taken *one);
/* -ENOMEM with a sentence, also where one is NULL; otherwise the list owns
 * it. */
int taken_add(struct taken_list *list, struct taken *one);

/* Opens the version that commit t->at left under the name, unless it is held
 * already. 0; -EAGAIN without a sentence: it was overtaken; -ENOENT: its record
 * does not have that name. */
int taken_hold(struct taking *t, struct taken *one);
/* The same for a version that has just been read from its record. */
int taken_open(
	struct taking *t, struct taken *one, const struct table_name *found);
/* It was overtaken: next time it is opened first. -ENOMEM. */
int taken_heat(struct taking *t, struct taken *one);
void taken_cool(struct taking *t, struct taken *one);
/* Frees an entry that may be hot. */
void taken_drop(struct taking *t, struct taken *one);

/* ---- snapshot_below.c: all names with a prefix ------------------------ */

/* Walks along the table, and brings t->all to the state that commit t->at
 * left. */
int taking_walk(struct taking *t);
