/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/kit/tap.h"

char *text_of(const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		bail("no memory");
	if (size)
		memcpy(text, bytes, size);
	text[size] = '\0';
	return text;
}
