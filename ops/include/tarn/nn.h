/* SPDX-License-Identifier: MIT */
/*
 * Module trees: the weights of a model as a tree of named tensors, bound to the
 * names of a store or of a file.
 *
 *	tarn_module *model = NULL;
 *	tarn_parameter *query = NULL;
 *
 *	r = tarn_module_open(store, "model", NULL, &model);
 *	if (r >= 0)
 *		r = tarn_module_find_parameter(model,
 *			"encoder.layer.0.attention.self.query.weight", &query);
 *	while (r >= 0) {
 *		tarn_state *state = tarn_module_hold(model);
 *
 *		r = forward(tarn_state_tensor(state, query));    one batch
 *		tarn_state_unref(state);
 *		if (r >= 0)
 *			r = tarn_module_refresh(model);          a newer version
 *	}
 *	model = tarn_module_unref(model);
 *
 * A module has tensors (parameters and buffers) and child modules, each under a
 * name; a list is a module whose children are named "0", "1" and so on. The
 * names of a path are divided by dots. The tensors of a tree that was opened are
 * those of the store or the file themselves: shared, read-only, and no copies.
 *
 * Structure and state. The structure, which is modules, names and handles of
 * parameters, stays what it is once the tree is made, so handles are looked up
 * once. The tensors are a state: a set that never changes and is counted. A
 * refresh, or another call that changes tensors, makes a new state and puts it
 * in the place of the present one in one step. A forward pass holds one state
 * and takes all tensors from it; so its answer comes from exactly one version,
 * whatever is refreshed meanwhile, and the tensors live until the last holder
 * drops the state.
 *
 * Order. Modules and tensors are walked in the natural order of their names:
 * runs of digits compare as numbers ("2" before "10", "conv2" before "conv10"),
 * all else as bytes. So the order depends on the names alone. A module's own
 * tensors come before those of its children.
 *
 * Threads. Any thread may hold, refresh, wait, load and convert, several at
 * once; functions that read the structure may be called beside them. Functions
 * that add to a tree must not run beside any other of the same tree. A tree goes
 * through fork() as its store does.
 */
#pragma once

#include <tarn/save.h>
#include <tarn/publish.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_module tarn_module;	      /* a module, with what is below */
typedef struct tarn_parameter tarn_parameter; /* the place of one tensor */
typedef struct tarn_state tarn_state;	      /* the tensors of one version */

/* How deep a tree may be: walks are recursive, and names may be hostile. */
#define TARN_MODULE_DEPTH_MAX 64

struct tarn_module_options {
	/* Only names that begin with this are the tree's, and the rest of them
	 * are the paths: "bert." makes "bert.pooler.bias" "pooler.bias".
	 * NULL: all. */
	const char *prefix;
	/* Which tensors are buffers, that is, state that no gradient changes.
	 * Integers and BOOL are, since there is no gradient of them; so are
	 * tensors whose path is one of these, or ends with a dot and one of
	 * them ("running_mean"). */
	const char *const *buffers;
	size_t n_buffers;
	/* If not NULL, decides it for each tensor instead of all that. */
	bool (*is_buffer)(
		void *arg, const char *path, const tarn_tensor *tensor);
	void *arg;
	/* tarn_module_open_file: loads the file into this store, once for all
	 * processes. NULL: the file is mapped. */
	tarn_store *store;
	uint64_t reserved[8]; /* 0 */
};

/* ---- making trees ---------------------------------------------------- */

/*
 * Makes a tree from the published names that begin with NAME/, as they stand at
 * one moment: "model/encoder.layer.0.bias" is the parameter
 * "encoder.layer.0.bias" of "model". options may be NULL. *ret is the caller's
 * reference; the tree keeps the store. -ENOENT: there are no such names;
 * -EINVAL: a name has an empty part, or is one of a tensor and of a module;
 * -E2BIG: it is deeper than TARN_MODULE_DEPTH_MAX; and the errors of
 * tarn_store_snapshot. Any thread.
 */
TARN_PUBLIC int tarn_module_open(tarn_store *store, const char *name,
	const struct tarn_module_options *options, tarn_module **ret)
	TARN_NONNULL(1, 2, 4) TARN_MUST_CHECK;

/* Makes a tree from the tensors of a file, which are mapped, or loaded into
 * options->store. Errors are else those of tarn_module_open, tarn_file_map and
 * tarn_store_load; -ENAMETOOLONG: a name has more than TARN_NAME_MAX bytes. Any
 * thread. */
TARN_PUBLIC int tarn_module_open_file(tarn_file *file,
	const struct tarn_module_options *options, tarn_module **ret)
	TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* Makes a tree of one module without tensors, to which others are added. *ret
 * is the caller's reference. */
TARN_PUBLIC int tarn_module_new(tarn_module **ret)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/*
 * Adds a parameter, a buffer or a module at a path below m, with the modules on
 * the way. The tree takes a reference to the tensor, which it does not write.
 * ret may be NULL; *ret is valid as long as the tree is. The new tensor is in
 * the states that are held from then on. -EEXIST: there is a tensor or a module
 * of that path (an existing module is no error for tarn_module_add_child, which
 * then returns that); -EINVAL, -E2BIG, -ENAMETOOLONG as for the opening.
 */
TARN_PUBLIC int tarn_module_add_parameter(tarn_module *m, const char *path,
	tarn_tensor *tensor, tarn_parameter **ret)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_module_add_buffer(tarn_module *m, const char *path,
	tarn_tensor *tensor, tarn_parameter **ret)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_module_add_child(tarn_module *m, const char *path,
	tarn_module **ret) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* One more reference to the whole tree of a module, for the caller; and drops
 * one. Modules and parameters are valid as long as there is one. They take NULL;
 * tarn_module_unref returns NULL. */
TARN_PUBLIC tarn_module *tarn_module_ref(tarn_module *m);
TARN_PUBLIC tarn_module *tarn_module_unref(tarn_module *m);

/* ---- structure ------------------------------------------------------- */

/* The path from the root, and the last name of it; "" for the root. Borrowed:
 * valid as long as the tree is. The parent: NULL for the root. */
TARN_PUBLIC const char *tarn_module_path(const tarn_module *m)
	TARN_NONNULL(1) TARN_NOT_NULL;
TARN_PUBLIC const char *tarn_module_name(const tarn_module *m)
	TARN_NONNULL(1) TARN_NOT_NULL;
TARN_PUBLIC tarn_module *tarn_module_parent(const tarn_module *m)
	TARN_NONNULL(1);

/* A module's own children and tensors, in order: how many, and an array of
 * them, which is valid until something is added to the tree. */
TARN_PUBLIC size_t tarn_module_children(
	const tarn_module *m, tarn_module *const **ret) TARN_NONNULL(1, 2);
TARN_PUBLIC size_t tarn_module_parameters(
	const tarn_module *m, tarn_parameter *const **ret) TARN_NONNULL(1, 2);

/* Finds a module ("encoder.layer.0"; "" is m) or a tensor
 * ("encoder.layer.0.bias") by its path below m. *ret is valid as long as the
 * tree is. -ENOENT: the sentence names the module that has no such name. */
TARN_PUBLIC int tarn_module_find(tarn_module *m, const char *path,
	tarn_module **ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_module_find_parameter(tarn_module *m, const char *path,
	tarn_parameter **ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* Calls fn for m and all modules below: walk calls it for a module before its
 * children, apply for the children first. Both stop when fn returns non-zero,
 * and return that. */
TARN_PUBLIC int tarn_module_walk(tarn_module *m,
	int (*fn)(void *arg, tarn_module *m), void *arg)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;
TARN_PUBLIC int tarn_module_apply(tarn_module *m,
	int (*fn)(void *arg, tarn_module *m), void *arg)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;
/* The same for all parameters and buffers. */
TARN_PUBLIC int tarn_module_each(tarn_module *m,
	int (*fn)(void *arg, tarn_parameter *p), void *arg)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

struct tarn_module_counts {
	size_t modules;	   /* m and those below */
	size_t parameters;
	size_t buffers;
	uint64_t elements; /* of the parameters */
	uint64_t trainable; /* elements of those that are trainable */
	uint64_t bytes;	   /* of parameters and buffers, packed */
	uint64_t reserved[4]; /* 0 */
};

/* Tensors that several paths share count for each of them. */
#define TARN_COUNT_TIED 1u

/* Counts what is at and below m, tied tensors (the same bytes with the same
 * layout) once, as that of their first path. flags: 0 or TARN_COUNT_TIED.
 * -EINVAL: other flags; -ENOMEM. */
TARN_PUBLIC int tarn_module_count(tarn_module *m, unsigned flags,
	struct tarn_module_counts *ret) TARN_NONNULL(1, 3) TARN_MUST_CHECK;

/* ---- parameters ------------------------------------------------------ */

/* The path from the root, and the last name of it. Borrowed: valid as long as
 * the tree is. */
TARN_PUBLIC const char *tarn_parameter_path(const tarn_parameter *p)
	TARN_NONNULL(1) TARN_NOT_NULL;
TARN_PUBLIC const char *tarn_parameter_name(const tarn_parameter *p)
	TARN_NONNULL(1) TARN_NOT_NULL;
TARN_PUBLIC bool tarn_parameter_is_buffer(const tarn_parameter *p)
	TARN_NONNULL(1);

/* A mark that this library keeps and does not use. Parameters begin as
 * trainable, and buffers never are: -EINVAL. Any thread. */
TARN_PUBLIC bool tarn_parameter_trainable(const tarn_parameter *p)
	TARN_NONNULL(1);
TARN_PUBLIC int tarn_parameter_set_trainable(
	tarn_parameter *p, bool trainable) TARN_NONNULL(1) TARN_MUST_CHECK;
/* The same for all parameters at and below m; buffers are left out. */
TARN_PUBLIC void tarn_module_set_trainable(tarn_module *m, bool trainable)
	TARN_NONNULL(1);

/* The present tensor, with a reference for the caller. Two calls may give
 * tensors of two versions: a forward pass holds a state. */
TARN_PUBLIC tarn_tensor *tarn_parameter_tensor(tarn_parameter *p)
	TARN_NONNULL(1) TARN_NOT_NULL;

/* ---- states ---------------------------------------------------------- */

/* Holds the present state of m's whole tree: no system call, no allocation. The
 * caller drops it with tarn_state_unref. Any thread. */
TARN_PUBLIC tarn_state *tarn_module_hold(tarn_module *m)
	TARN_NONNULL(1) TARN_NOT_NULL;
/* One more reference, and one less. Both take NULL; tarn_state_unref returns
 * NULL. A state outlives its tree. */
TARN_PUBLIC tarn_state *tarn_state_ref(tarn_state *state);
TARN_PUBLIC tarn_state *tarn_state_unref(tarn_state *state);

/* The tensor of a parameter in that state: an index into an array. Borrowed:
 * valid as long as the state is held. NULL: the parameter is another tree's, or
 * was added later. */
TARN_PUBLIC tarn_tensor *tarn_state_tensor(
	const tarn_state *state, const tarn_parameter *p) TARN_NONNULL(1, 2);

/* The number of the commit that left these tensors (see snapshot.h), but for
 * those that tarn_module_load_state has replaced since; 0 for a tree that is not
 * bound to a store's names. */
TARN_PUBLIC uint64_t tarn_state_commit(const tarn_state *state)
	TARN_NONNULL(1);

/* ---- newer versions -------------------------------------------------- */

/*
 * Looks whether any of the tree's names has a newer version, and if so replaces
 * all tensors of the tree by what one commit left: 1; 0: there is none, and
 * nothing changes. Without any publication in the pool since the last call it
 * takes about a microsecond. Works on the whole tree of m. What tarn_module_to
 * has asked for is done to the new tensors first. Tensors that were added to the
 * tree by hand, as adapters are, stay.
 *
 * -EINVAL: names were added or removed, or a tensor has another shape or dtype,
 * and the sentence lists them; the tree stays as it was. -ENOTSUP: it is not
 * bound to a store's names. And the errors of tarn_store_snapshot and
 * tarn_module_to. Any thread; when two refresh at once the newer version stays.
 */
TARN_PUBLIC int tarn_module_refresh(tarn_module *m)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/*
 * Waits until there is something for tarn_module_refresh to do: 0. timeout_ms
 * is that of tarn_store_wait, as are the errors. A publication of the whole set
 * wakes it at once; one of some of its names may be noticed 20 ms later. If the
 * set has changed so that refresh fails, this returns at once until the set is
 * repaired.
 */
TARN_PUBLIC int tarn_module_wait(tarn_module *m, int timeout_ms)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* ---- state in and out ------------------------------------------------ */

/* Saves the tensors at and below m, under their paths below m, as a file:
 * tarn_save, whose options and errors these are. */
TARN_PUBLIC int tarn_module_save(tarn_module *m, const char *path,
	const struct tarn_save_options *options) TARN_NONNULL(1, 2)
	TARN_MUST_CHECK;

/* Publishes them as NAME/PATH, in one publication: tarn_store_publish, whose
 * options and errors these are. With options->replace "NAME/" they are all that
 * is below NAME afterwards. */
TARN_PUBLIC int tarn_module_publish(tarn_module *m, tarn_store *store,
	const char *name, const struct tarn_publish_options *options)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/* How one set of tensors differs from another. */
struct tarn_module_difference {
	size_t missing;	   /* paths that the source does not have */
	size_t unexpected; /* paths that the source alone has */
	size_t mismatched; /* another shape or dtype */
	uint64_t reserved[4]; /* 0 */
};

/*
 * Takes the tensors at and below from, another tree, in the place of those of
 * the same paths at and below m, in one step. Both share them then; nothing is
 * copied, but what tarn_module_to has asked m for is done to them. A tree that
 * is bound to a store stays so: its next newer version replaces them.
 *
 * strict: every path must be in both trees, as in PyTorch. Without it missing
 * ones keep their tensors, and unexpected ones are left out; mismatched ones are
 * an error in any case. ret may be NULL, and is written after -EINVAL too.
 * -EINVAL: they differ; the sentence lists missing, unexpected and mismatched
 * tensors, and nothing was changed. -ENOMEM. Any thread.
 */
TARN_PUBLIC int tarn_module_load_state(tarn_module *m, tarn_module *from,
	bool strict, struct tarn_module_difference *ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* ---- dtypes and devices ---------------------------------------------- */

/*
 * Replaces the tensors at and below m by private ones of another dtype, on
 * another device, or both; and those of all later versions, before they become
 * the tree's. dtype TARN_DTYPE_NONE: as they are; otherwise a floating one, in
 * which floating tensors are converted (tarn_copy has the rules), and integers
 * stay. device NULL: where they are; "cpu"; "cuda", "cuda:0" or another name
 * that tarn_cuda_device takes. Tensors that are so already stay the shared ones;
 * tied ones stay tied; on a device all new ones lie in one storage.
 *
 * -EINVAL: dtype is no floating dtype; -ENOMEM; and the errors of
 * tarn_cuda_device, tarn_cuda_alloc and tarn_copy. After an error the tree is as
 * it was. Any thread.
 */
TARN_PUBLIC int tarn_module_to(tarn_module *m, enum tarn_dtype dtype,
	const char *device) TARN_NONNULL(1) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
