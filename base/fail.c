/* SPDX-License-Identifier: MIT */
/*
 * One buffer a thread holds the last sentence. Nothing is allocated, so that
 * "out of memory" can be reported too.
 */
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char message[TARN_MESSAGE_MAX];
/* If not NULL, it stands in place of the buffer. */
static _Thread_local const char *constant;

int tarn_fail_list(int err, const char *fmt, va_list list)
{
	int saved = errno;
	char text[TARN_MESSAGE_MAX];

	/* Formatted into another buffer first, since an argument may be the
	 * present message. */
	vsnprintf(text, sizeof(text), fmt, list);
	memcpy(message, text, sizeof(message));
	constant = NULL;
	errno = saved;
	return -err;
}

int tarn_fail(int err, const char *fmt, ...)
{
	va_list list;
	int r;

	va_start(list, fmt);
	r = tarn_fail_list(err, fmt, list);
	va_end(list);
	return r;
}

int tarn_fail_constant(int err, const char *text)
{
	constant = text;
	return -err;
}

int tarn_fail_verbatim(int err, const char *text)
{
	return tarn_fail(err, "%s", text);
}

int tarn_fail_prefix(int r, const char *fmt, ...)
{
	int saved = errno;
	char text[TARN_MESSAGE_MAX];
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = strlen(text);
	snprintf(text + n, sizeof(text) - n, "%s", tarn_fail_message());
	memcpy(message, text, sizeof(message));
	constant = NULL;
	errno = saved;
	return r;
}

const char *tarn_fail_message(void)
{
	return constant ? constant : message;
}

const char *tarn_errno_text(int err)
{
	const char *text = strerrordesc_np(err < 0 ? -err : err);

	return text ? text : "unknown error";
}
