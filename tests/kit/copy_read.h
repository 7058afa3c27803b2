/* SPDX-License-Identifier: MIT */
/* Views of a file of known bytes, to be copied to memory between canaries. */
#pragma once

#include <tarn/copy.h>

#include "base/checked.h"
#include "tests/kit/filling.h"

enum { SIZE = 3 * SEGMENT + 4096, MARGIN = 4096 };

/* A copy: of a view of a tensor that begins somewhere in the file, to memory
 * of some dtype that lies so many bytes behind a page's beginning. */
struct sample {
	const char *dtype, *shape, *view, *to_dtype, *to_view;
	uint64_t offset;
	unsigned shift;
	bool scaled;
};

/* A row, one that begins at an odd place, a column, a transposition: for what
 * is tried very often. */
#define KIT_FEW 4
extern const struct sample kit_read_few[KIT_FEW];

/* Memory between canaries, which are a page each. */
struct target {
	char *raw;
	size_t size;
	tarn_tensor *tensor;
};

/* What is copied, in a file as make_file makes it; where to; and how. */
tarn_tensor *kit_read_in_file(int fd, const struct sample *s);
struct target kit_read_target(const struct sample *s, const tarn_tensor *src);
void kit_read_drop(struct target *p);
struct tarn_copy_options kit_read_options(const struct sample *s);
/* What the copy out of memory makes of it. */
struct target kit_read_wanted(const struct sample *s);

struct way {
	const char *engine;
	enum tarn_io_mode io_mode;
	enum {
		IS_WARM,
		IS_EVICTED, /* as far as that goes at once */
		AS_IT_IS,
	} cache;
};

/* Copies it in that way: are all bytes as they are wanted? NULL: any. */
bool kit_read_copy(int fd, const struct sample *s, const struct way *way,
	const struct target *wanted, struct tarn_copy_info *ret_info);
