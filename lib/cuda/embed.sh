#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Prints kernel_image.c: the kernels, which the compiler for devices has left in
# FILE, as data of the library.

cat <<'END'
/* Made by lib/cuda/embed.sh. */
#include "lib/cuda/kernel.h"

static const _Alignas(16) unsigned char image[] = {
END
od -An -v -tu1 "${1:?the file with the kernels}" |
	sed -E 's/[0-9]+/&,/g' || exit 1
cat <<'END'
};

const void *cuda_kernel_image(void)
{
	return image;
}
END
