/* SPDX-License-Identifier: MIT */
/*
 * tarn - tensors in memory that many processes share.
 *
 * A tensor is a storage (where the bytes are) and a layout (how to walk them).
 * The simple path needs four calls:
 *
 *	tarn_store *s = NULL;
 *	tarn_tensor *w = NULL, *v = NULL;
 *	int r = tarn_store_open(NULL, NULL, &s);
 *	if (r >= 0) r = tarn_store_get(s, "m.safetensors:wte", NULL, &w);
 *	if (r >= 0) r = tarn_tensor_eval(w, "[0:4, ::2]", &v);
 *	if (r >= 0) printf("%g\n", *(const float *)tarn_tensor_data(v));
 *	else fprintf(stderr, "%s\n", tarn_error_message());
 *
 * Everything else is in the headers below, each of which begins with its
 * concept.
 *
 * Structs. A struct that the caller makes ends in reserved words, which must be
 * 0. Initialise it by the names of its members, or as {0}, and they are:
 *
 *	struct tarn_copy_options options = {.threads = 4};
 *
 *	r = tarn_copy(dst, src, &options, NULL);
 *
 * A later version gives a reserved word a name, and its 0 means what this
 * version does. So no struct ever changes its size, arrays of structs keep
 * their stride, and a program works with a library that is older or newer than
 * its headers. A library that does not know a word that the program sets
 * returns -EINVAL, and the sentence names the struct; an uninitialised struct
 * is found in the same way. Structs that the library fills end in reserved
 * words too, and the library sets them to 0. NULL options are all 0.
 *
 * A struct that the library allocates (struct tarn_report, struct tarn_check,
 * struct tarn_snapshot, struct tarn_file_entry) may grow at its end. Use it
 * where the library has put it, and do not copy it.
 *
 * Fixed for good: struct tarn_layout, struct tarn_descriptor, struct
 * tarn_reshape_plan and struct tarn_reshape_step.
 *
 * Order of arguments. The object is first; what a call returns by a pointer is
 * last and begins with ret. Sizes and dimensions of a tensor stand behind their
 * number (ndim, shape); every other array stands before its length (items, n),
 * and bytes before their size. Flags are 0 or a sum of macros; a function
 * returns -EINVAL for those that it does not know.
 *
 * In C++ write struct tarn_channel_info, struct tarn_stream_progress, struct
 * tarn_cuda_device, struct tarn_data_order, struct tarn_data_info, struct
 * tarn_data_source_info and enum tarn_storage_kind, as in C: functions have
 * these names, too.
 */
#pragma once

#include <tarn/version.h>
#include <tarn/error.h>
#include <tarn/dtype.h>
#include <tarn/layout.h>
#include <tarn/descriptor.h>
#include <tarn/tensor.h>
#include <tarn/dlpack.h>
#include <tarn/copy.h>
#include <tarn/gather.h>
#include <tarn/file.h>
#include <tarn/save.h>
#include <tarn/store.h>
#include <tarn/snapshot.h>
#include <tarn/publish.h>
#include <tarn/set.h>
#include <tarn/channel.h>
#include <tarn/data.h>
#include <tarn/loader.h>
#include <tarn/report.h>
#include <tarn/segments.h>
#include <tarn/node.h>
#include <tarn/cuda.h>
