/* SPDX-License-Identifier: MIT */
/*
 * A tree's structure and its present state. The tree owns the structure; the
 * holders of a state own it together. A slot is the place of a parameter's tensor
 * in every state of its tree.
 */
#pragma once

#include <stdatomic.h>

#include <tarn/cuda.h>
#include <tarn/nn.h>
#include <tarn/snapshot.h>

#include "base/checked.h"
#include "base/cleanup.h"

/* What modules and parameters begin with. */
struct named {
	char *path;
	const char *name; /* in path */
};

struct tarn_module {
	struct named named;
	struct tree *tree;
	tarn_module *parent;
	tarn_module **children;
	tarn_parameter **tensors;
	size_t n_children, n_tensors;
};

struct tarn_parameter {
	struct named named;
	tarn_module *module;
	size_t slot;
	struct tarn_layout layout; /* every version has its dtype and shape */
	bool buffer;
	atomic_bool trainable;
};

struct tree {
	struct tarn_module root;
	atomic_size_t refs;
	tarn_parameter **parameters; /* by their slots */
	size_t n;
	tarn_store *store;   /* NULL: it is not bound to names */
	char *prefix;        /* of the names */
	tarn_state *current; /* under the lock of state.c */
};

/* Which bytes a published tensor is, for good: no other storage of the daemon
 * has its generation. */
struct origin {
	uint64_t version, generation, base;
	int64_t offset;
	uint32_t pool, storage;
};

enum place { PLACE_ANY, PLACE_HOST, PLACE_DEVICE };

/* A dtype and a place; without padding, to be compared as bytes. */
struct target {
	uint8_t uuid[16]; /* of the device */
	uint32_t dtype;   /* TARN_DTYPE_NONE: as it is */
	uint32_t place;
};

struct slot {
	tarn_tensor *tensor;
	struct origin origin;
	struct target wish; /* of tarn_module_to, for this and later tensors */
};

struct tarn_state {
	const struct tree *tree; /* only compared */
	atomic_size_t refs;
	uint64_t commit;
	/* A commit up to which no name of the tree has a newer version. */
	_Atomic uint64_t seen;
	size_t n;
	struct slot slots[];
};

DEFINE_CLEANUP(tarn_state *, tarn_state_unref);
#define _cleanup_state_ _cleanup_(tarn_state_unrefp)
DEFINE_CLEANUP(tarn_module *, tarn_module_unref);
#define _cleanup_module_ _cleanup_(tarn_module_unrefp)

/* ---- structure ---------------------------------------------------------- */

int tree_no_memory(void);

/* The order of names and paths. */
int natural_order(const char *a, size_t a_size, const char *b, size_t b_size);

/* Puts a tensor's place into the tree, with the modules on the way; its slot is
 * the last. The caller puts the tensor into the state. */
int tree_add(tarn_module *m, const char *path, const struct tarn_layout *layout,
	bool buffer, tarn_parameter **ret);
/* NULL: there is none. */
tarn_parameter *tree_look_up(const tarn_module *m, const char *path);
/* The path of a parameter at or below m from there. */
const char *path_below(const tarn_module *m, const tarn_parameter *p);
/* Its parameters in order: how many, in an array that the caller frees. */
int tree_list(tarn_module *m, tarn_parameter ***ret, size_t *ret_n);

/* ---- states ------------------------------------------------------------- */

int state_new(const struct tree *tree, size_t n, tarn_state **ret);
/* With the same tensors, and room for n in all. */
int state_copy(const tarn_state *from, size_t n, tarn_state **ret);
/* Another tensor for a slot. */
void slot_set(struct slot *slot, tarn_tensor *tensor);
tarn_state *state_hold(struct tree *tree);
/* Puts a state, which it consumes, in the place of the one that it was made
 * from; false: another thread was faster. */
bool state_swap(struct tree *tree, const tarn_state *from, tarn_state *to);

/* Are two tensors the same elements of the same bytes? An order of tensors in
 * which those are neighbours. */
int tied_order(const tarn_tensor *a, const tarn_tensor *b);
/* Floating, and real. */
bool is_float(enum tarn_dtype dtype);
/* Makes all slots what is asked of them. */
int state_convert(tarn_state *state);

/* ---- sets of tensors ---------------------------------------------------- */

struct set_item {
	const char *path; /* borrowed */
	tarn_tensor *tensor;
	struct origin origin;
};

/* Tensors by their paths, from anywhere. */
struct tensor_set {
	const char *what; /* for messages: borrowed */
	uint64_t commit;
	struct set_item *items;
	size_t n;
	struct tarn_snapshot *snapshot; /* what the items are borrowed from */
};

void set_close(struct tensor_set *set);
#define _cleanup_set_ _cleanup_(set_close)

int set_from_store(
	tarn_store *store, const char *prefix, struct tensor_set *ret);
int set_from_file(tarn_file *file, const struct tarn_module_options *options,
	struct tensor_set *ret);
int set_from_tree(
	tarn_module *m, const tarn_state *state, struct tensor_set *ret);

enum { STRICT = 1 };

/* Puts a set's tensors into the slots of the parameters below m; *ret may be
 * NULL. -EINVAL as tarn_module_load_state says, with what in front. */
int set_into(const struct tensor_set *set, tarn_module *m, bool strict,
	const char *what, tarn_state *state,
	struct tarn_module_difference *ret);
