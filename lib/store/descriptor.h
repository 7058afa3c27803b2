/* SPDX-License-Identifier: MIT */
/* Descriptors that came from elsewhere, checked before they are believed. */
#pragma once

#include <tarn/layout.h>

#include "shm/table.h"

/* Is it a descriptor of this daemon, and whole? The layout in it is good, the
 * storage it names has not been looked at. It lies in private memory, where it
 * stays as it was checked. -EBADMSG, -ESTALE; *ret_layout is written to
 * whatever comes of it. */
int descriptor_check(const struct tarn_descriptor *descriptor,
	uint64_t instance, struct tarn_layout *ret_layout);

/* Only what comes before the shape, without offset, dtype and rank. -EBADMSG,
 * -ESTALE. */
int descriptor_check_header(
	const struct tarn_descriptor *descriptor, uint64_t instance);

/* Does all that it reaches lie in the storage that the table describes? Gives
 * the byte of the storage from which the layout counts. -EBADMSG. */
int descriptor_fits(const struct tarn_descriptor *descriptor,
	const struct tarn_layout *layout, const struct table_storage *entry,
	uint64_t *ret_base);

/* Both, for table_check(). */
int descriptor_agrees(const struct table *table,
	const struct tarn_descriptor *descriptor,
	const struct table_storage *entry);
