/* SPDX-License-Identifier: MIT */
/*
 * Objects as bytes: how an item of a channel holds any nesting of dicts,
 * lists, strings, numbers and arrays.
 *
 *   struct pack_head   32 bytes
 *   the tree           the objects, depth first: a tag, then its contents
 *   the bytes          of arrays in C order, each at a multiple of 64
 *
 * Numbers in the tree are of variable length (7 bits a byte, the lowest
 * first), signed ones with their sign in the lowest bit. The tree is written
 * first, into memory of its own, so that an object is walked once, nothing is
 * held meanwhile, and its size is known before a place is chosen; the bytes of
 * the arrays are copied once, to where the receiver reads them.
 *
 * The reader trusts nothing: it copies the tree to private memory, and compares
 * every count with the bytes that are left, and every array with the memory in
 * which it claims to lie.
 */
#pragma once

#include "python/module.h"

#define PACK_MAGIC 0x316b7074u /* "tpk1" */
#define PACK_ALIGN 64u /* of arrays: a cache line, and any vector register */

struct pack_head {
	uint32_t magic;
	uint32_t zero;
	uint64_t tree;  /* bytes of the tree */
	uint64_t bytes; /* where the arrays begin */
	uint64_t size;  /* of all of it */
};
_Static_assert(sizeof(struct pack_head) == 32, "processes share it");

#define PACK_STRIDED 64u
_Static_assert(TARN_DTYPE_MAX < PACK_STRIDED, "a bit beside the dtype");

enum pack_tag {
	PACK_NONE = 1,
	PACK_FALSE,
	PACK_TRUE,
	PACK_INT,      /* signed number */
	PACK_BIG_INT,  /* count, bytes: two's complement, the lowest first */
	PACK_FLOAT,    /* 8 bytes */
	PACK_COMPLEX,  /* 16 bytes */
	PACK_TEXT,     /* count, UTF-8 */
	PACK_ODD_TEXT, /* the same with surrogates in it */
	PACK_BYTES,    /* count, bytes */
	PACK_BYTEARRAY,
	PACK_LIST, /* count, values */
	PACK_TUPLE,
	PACK_SET, /* a tuple */
	PACK_FROZENSET,
	PACK_DICT,   /* count, keys and values */
	PACK_PICKLE, /* a tuple: bytes, a list of arrays, a list of memory */
	/* dtype (with PACK_STRIDED: not in C order, but without a gap), rank,
	 * shape, perhaps strides, where (in PACK_ALIGN, among the bytes). */
	PACK_TENSOR,
	PACK_NUMPY,
	PACK_NUMPY_SCALAR,
	PACK_TORCH,
	PACK_LONG_BYTES, /* the same, but always U8 and of rank 1 */
	PACK_LONG_BYTEARRAY,
	PACK_MEMORY, /* a memoryview */
	/* Of another tensor of the item: its number, a byte of it (signed);
	 * tag, dtype with PACK_STRIDED, rank, shape, strides. */
	PACK_VIEW,
	/* The other tensor as it is: its number. */
	PACK_WHOLE,
	PACK_TAGS
};

/* Memory that the item has beside the packed bytes: arrays in it are referred
 * to, not copied. */
struct pack_record {
	const unsigned char *data;
	uint64_t size;
};

/* An array, before it is known what becomes of it. */
struct pack_layout {
	enum pack_tag tag;
	int dtype, ndim;
	int64_t shape[TARN_NDIM_MAX];
	int64_t strides[TARN_NDIM_MAX]; /* in elements */
	const unsigned char *data; /* of the element at (0, 0, ...), or NULL */
	bool contiguous;
};

/* The bytes of one array, until they are copied. */
struct pack_part {
	const void *data;         /* in C order; NULL: */
	const tarn_tensor *steps; /* these elements */
	uint64_t at, size;
	PyObject *owner; /* keeps them; or NULL and */
	Py_buffer view;
	/* Where they lie, of an array; and may its owner get other memory? */
	const unsigned char *first;
	uint64_t span;
	bool moves;
	bool held; /* not any more: the owner is one of ours */
};

struct packer {
	unsigned char *tree;
	size_t used, room;
	struct pack_part *parts;
	size_t n_parts, parts_room;
	uint64_t bytes; /* of all parts, each aligned */

	const struct pack_record *records;
	size_t n_records;
	size_t n_unused; /* tensors after them, which the tree does not name */
	/* Tensors that all clients of the store can read are sent as they are:
	 * at most as many, which get the numbers after those of the others. */
	PyObject **sent;
	size_t n_sent, sent_max;
	bool plain; /* nothing may be pickled */
	/* Other threads may have had the GIL since parts were noted. */
	bool others_ran;
};

/* ---- libraries.c --------------------------------------------------- */

/* The parts of numpy and PyTorch that packing needs; NULL, without an
 * exception, if the program has not imported the library. */
struct numpy_face {
	PyObject *array;                      /* the type ndarray */
	PyObject *generic;                    /* the type of scalars */
	PyObject *dtypes[TARN_DTYPE_MAX + 1]; /* NULL: it has none */
};

struct torch_face {
	PyObject *tensor;  /* the type Tensor */
	PyObject *strided; /* torch.strided */
	PyObject *take;    /* makes a tensor of a DLPack capsule */
	PyObject *numbers; /* dtype -> number of ours */
	/* A dtype that not all versions export by DLPack travels as integers
	 * with the same bits, of the dtype carrier; 0: as itself. */
	int carriers[TARN_DTYPE_MAX + 1];
	PyObject *dtypes[TARN_DTYPE_MAX + 1]; /* NULL: it has none */
};

const struct numpy_face *numpy_if_imported(void);
const struct torch_face *torch_if_imported(void);
/* These import it: NULL with an exception. */
const struct numpy_face *numpy_face(void);
const struct torch_face *torch_face(void);

/* ---- pack.c -------------------------------------------------------- */

/* Walks the object. p begins as {0} with what the caller chooses, and ends
 * with pack_drop, also after an error. 0 or -1. */
int pack_value(struct packer *p, PyObject *object);

/* ---- packed.c ------------------------------------------------------ */

uint64_t pack_size(const struct packer *p);
/* Into pack_size bytes at dst, without the GIL where there is much. 0 or -1. */
int pack_write(const struct packer *p, void *dst);
void pack_drop(struct packer *p);

/* Functions that add to the tree. 0 or -1. */
int pack_raw(struct packer *p, const void *data, size_t n);
int pack_tag(struct packer *p, enum pack_tag tag);
int pack_number(struct packer *p, uint64_t number);
int pack_signed(struct packer *p, int64_t number);

/* ---- pack_array.c -------------------------------------------------- */

/* 1: it was an array, 0: it is none (of those that can be packed), -1. */
int pack_array(struct packer *p, PyObject *object);
/* n bytes, which owner keeps, as one of the tags that are always U8. */
int pack_memory(struct packer *p, enum pack_tag tag, PyObject *owner,
	const void *data, uint64_t n);
/* The same for one that is exactly a tensor of PyTorch's. */
int pack_torch(
	struct packer *p, PyObject *object, const struct torch_face *torch);
/* Does the tensor begin there still, and have as many bytes? 1, 0 or -1. */
int pack_torch_has(PyObject *tensor, const unsigned char *first, uint64_t span);
/* Another tensor of the same memory, which no other code can move to other
 * memory. Other threads may have run. */
PyObject *pack_torch_hold(PyObject *tensor);

/* ---- pack_part.c --------------------------------------------------- */

/* Room for so many bytes; the caller notes which. NULL with an exception. */
struct pack_part *pack_new_part(struct packer *p, uint64_t size);
/* An array whose bytes owner keeps, or the view, which is taken over (also by
 * an error). 1, or -1. */
int pack_owned(struct packer *p, const struct pack_layout *a, PyObject *owner);
int pack_viewed(struct packer *p, const struct pack_layout *a, Py_buffer *view);
/* 1: it begins in memory that the item has already, and is referred to; 0;
 * -1. */
int pack_as_view(struct packer *p, const struct pack_layout *a);
/* Tag, dtype, rank, shape, and strides if strided. */
int pack_shape(struct packer *p, const struct pack_layout *a, bool strided);
/* Before they are copied. 0: all parts are where they were noted, and stay
 * there while they are; 1: the memory of one may be gone, and all is to be
 * packed anew; -1. */
int pack_moved(struct packer *p);
int pack_copy_parts(const struct packer *p, unsigned char *bytes);
void pack_drop_part(struct pack_part *part);

/* ---- unpack.c, unpack_array.c, unpack_make.c ----------------------------- */

struct unpacker {
	const unsigned char *at, *end; /* of the tree */
	PyObject *whole;               /* the Tensor that all of it is */
	uint64_t bytes, size;          /* where arrays begin and end in it */
	uint64_t values;               /* how many more the tree may have */
	uint64_t left;                 /* bytes that no array has had yet */
	PyObject *records;             /* a tuple of Tensors, or NULL */
	bool plain;
};

/* Unpacks whole, a tensor U8[n]; records may be NULL. */
PyObject *unpack(PyObject *whole, PyObject *records, bool plain);
/* Does it begin as what was packed? */
bool unpack_knows(const tarn_tensor *whole);

/* An array of base, a Tensor in C order. */
struct unpack_found {
	enum pack_tag tag;
	PyObject *base;
	int64_t at; /* the byte of base where the element (0, 0, ...) is */
	struct tarn_layout layout; /* counted from there */
	bool strided;              /* strides stand behind the shape */
};

/* The array that was found, and compared with base. */
PyObject *unpack_make(const struct unpack_found *f);
PyObject *unpack_array(struct unpacker *u, enum pack_tag tag);
PyObject *unpack_view(struct unpacker *u);
PyObject *unpack_whole(struct unpacker *u);
int unpack_byte(struct unpacker *u, int *ret);
int unpack_number(struct unpacker *u, uint64_t *ret);
int unpack_signed(struct unpacker *u, int64_t *ret);
/* The sentence of all that is wrong with packed bytes; returns NULL. */
PyObject *unpack_fail(const char *what);
