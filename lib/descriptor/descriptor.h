/* SPDX-License-Identifier: MIT */
/* Checks of descriptors that came from elsewhere. */
#pragma once

#include <tarn/layout.h>

#include "shm/table.h"

/* Is it a complete descriptor of this daemon? The layout in it is valid; the
 * storage that it names was not checked. It must lie in private memory, where
 * it stays as it was checked. -EBADMSG, -ESTALE; *ret_layout may be written on
 * failure too. */
int descriptor_check(const struct tarn_descriptor *descriptor,
	uint64_t instance, struct tarn_layout *ret_layout);

/* Checks only the fields before the shape, without offset, dtype and rank.
 * -EBADMSG, -ESTALE. */
int descriptor_check_header(
	const struct tarn_descriptor *descriptor, uint64_t instance);

/* Does everything that it reaches lie in the storage that the table describes?
 * Returns the byte of the storage from which the layout counts. -EBADMSG. */
int descriptor_fits(const struct tarn_descriptor *descriptor,
	const struct tarn_layout *layout, const struct table_storage *entry,
	uint64_t *ret_base);

/* Both, for table_check(). */
int descriptor_agrees(const struct table *table,
	const struct tarn_descriptor *descriptor,
	const struct table_storage *entry);
