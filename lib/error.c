/* SPDX-License-Identifier: MIT */
/* The public interface of base/fail.h. */
#include <stdarg.h>

#include <tarn/error.h>
#include <tarn/version.h>

#include "base/fail.h"
#include "config.h"

const char *tarn_error_message(void)
{
	return tarn_fail_message();
}

int tarn_error_set(int err, const char *format, ...)
{
	va_list list;
	int r;

	va_start(list, format);
	r = tarn_fail_list(err, format, list);
	va_end(list);
	return r;
}

const char *tarn_version(void)
{
	return PACKAGE_VERSION;
}
