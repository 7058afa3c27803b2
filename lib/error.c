/* SPDX-License-Identifier: MIT */
/* The public interface of base/fail.h. */
#include <tarn/error.h>
#include <tarn/version.h>

#include "base/fail.h"
#include "config.h"

const char *tarn_error_message(void)
{
	return tarn_fail_message();
}

const char *tarn_version(void)
{
	return PACKAGE_VERSION;
}
