// SPDX-License-Identifier: MIT
/*
 * The text of a header, one window at a time: reading a header of 10 MB as a
 * whole would spend a third of the time on fresh memory that is used once. If a
 * member of the root does not fit into a window, or looks wrong because it is
 * cut, it is read again together with all the rest.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/safetensors.h"

/* Fits into the cache of one core, and makes reads rare. */
size_t safetensors_window = 256 << 10;

/* Reads n bytes into buf + kept; buf begins with byte at of the header. */
static int fill(struct safetensors_text *t, size_t kept, size_t n)
{
	char *new = t->buf + kept;
	const char *nul;
	int r = file_read(t->file, new, n, SAFETENSORS_TEXT + t->at + kept);

	nul = r < 0 ? NULL : json_find_nul((struct json_text) {new, new + n});
	if (nul)
		return tarn_fail(EBADMSG,
			"the header is not the JSON that it must be, at byte "
			"%llu of its %llu: a NUL",
			(unsigned long long)t->at +
				(unsigned long long)(nul - t->buf),
			(unsigned long long)t->size);
	return r;
}

int safetensors_text_begin(struct safetensors_text *t)
{
	size_t n = MIN(t->size, safetensors_window);

	t->buf = malloc(n + 1);
	if (!t->buf)
		return file_no_memory("the header of a file");
	t->p = t->buf;
	t->end = t->buf + n;
	t->at = 0;
	return fill(t, 0, n);
}

bool safetensors_text_all(const struct safetensors_text *t)
{
	return t->at + (size_t)(t->end - t->buf) == t->size;
}

/* Drops the text that was read; up to room bytes are in buf then. */
static int slide(struct safetensors_text *t, char *buf, size_t room)
{
	size_t kept = (size_t)(t->end - t->p), n;

	t->at += (size_t)(t->p - t->buf);
	n = MIN(t->size - t->at, room) - kept;
	memmove(buf, t->p, kept);
	if (buf != t->buf)
		free(t->buf);
	t->buf = buf;
	t->p = buf;
	t->end = buf + kept + n;
	return fill(t, kept, n);
}

int safetensors_text_more(struct safetensors_text *t)
{
	if (safetensors_text_all(t) || t->p == t->buf)
		return 0;
	return slide(t, t->buf, safetensors_window);
}

int safetensors_text_rest(struct safetensors_text *t)
{
	size_t left = t->size - t->at - (size_t)(t->p - t->buf);
	char *buf = malloc(left + 1);

	if (!buf)
		return file_no_memory("the header of a file");
	return slide(t, buf, left);
}
