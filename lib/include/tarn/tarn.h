/* SPDX-License-Identifier: MIT */
/*
 * tarn - tensors in memory that many processes share.
 *
 * A tensor is a storage (where the bytes are) and a layout (how to walk
 * them). The simple path needs four calls:
 *
 *	tarn_store *s = NULL;
 *	tarn_tensor *w = NULL, *v = NULL;
 *	int r = tarn_store_open(NULL, &s);
 *	if (r >= 0) r = tarn_store_get(s, "m.safetensors:wte", &w);
 *	if (r >= 0) r = tarn_tensor_view(w, "[0:4, ::2]", &v);
 *	if (r >= 0) printf("%g\n", *(const float *)tarn_tensor_data(v));
 *	else fprintf(stderr, "%s\n", tarn_error_message());
 *
 * Everything else is in the headers below, each of which begins with the
 * idea behind its noun.
 */
#pragma once

#include <tarn/error.h>
#include <tarn/dtype.h>
#include <tarn/layout.h>
#include <tarn/descriptor.h>
#include <tarn/tensor.h>
#include <tarn/copy.h>
#include <tarn/file.h>
#include <tarn/save.h>
#include <tarn/store.h>
#include <tarn/publish.h>
#include <tarn/channel.h>
#include <tarn/report.h>
