/* SPDX-License-Identifier: MIT */
/*
 * The output of --json: one valid object, with any names; a name that JSON
 * cannot hold is changed, not dropped.
 */
#include "cli/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/message.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* How many bytes at s are one character that JSON takes; 0: none. */
static size_t character(const char *s)
{
	json_t *probe;

	for (size_t n = 1; n <= 4 && s[n - 1]; n++) {
		probe = json_stringn(s, n);
		json_decref(probe);
		if (probe)
			return n;
	}
	return 0;
}

json_t *json_text(const char *s)
{
	_cleanup_free_ char *fixed = NULL;
	json_t *text = json_string(s);
	char *to;

	if (text)
		return text;
	to = fixed = must(malloc(strlen(s) * strlen(REPLACEMENT) + 1));
	while (*s) {
		size_t n = character(s);

		if (n)
			to = mempcpy(to, s, n);
		else
			to = mempcpy(to, REPLACEMENT, strlen(REPLACEMENT));
		s += n ? n : 1;
	}
	*to = '\0';
	return must(json_string(fixed));
}

json_t *json_u64(uint64_t n)
{
	return must(n > INT64_MAX ? json_real((double)n)
				  : json_integer((json_int_t)n));
}

void json_put(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) < 0)
		must(NULL);
}

int json_print(json_t *object)
{
	/* Nine digits: seconds to the nanosecond. */
	int r = json_dumpf(
		object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));

	json_decref(object);
	putchar('\n');
	return r < 0 && !ferror(stdout)
		       ? print_failure("the JSON cannot be written")
		       : EXIT_DONE;
}
