/* SPDX-License-Identifier: MIT */
/*
 * Which names the control region takes: UTF-8 of at most 1,024 bytes, without
 * control characters. The error says which byte is wrong.
 */
#include <errno.h>
#include <string.h>

#include "base/fail.h"
#include "shm/table.h"
#include "tests/kit/tap.h"

int main(void)
{
	char longest[1025];

	memset(longest, 'x', sizeof(longest));
	is_int(-EINVAL, name_check("", 0), "an empty name is refused");
	is_int(0, name_check(longest, 1024),
		"a name of 1,024 bytes is accepted");
	is_int(-ENAMETOOLONG, name_check(longest, 1025),
		"a name of 1,025 bytes is refused");
	is_int(0, name_check("a/\xc3\xa4/\xf0\x9f\x8f\x94", 9),
		"a name in UTF-8 is accepted");
	is_int(-EINVAL, name_check("a\0b", 3), "a name with NUL is refused");
	is_int(-EINVAL, name_check("a\x7f", 2), "a name with DEL is refused");
	is_int(-EINVAL, name_check("\xc2\x85", 2),
		"a name with U+0085 is refused");
	is_int(-EINVAL, name_check("\xc0\xaf", 2),
		"a name with an overlong slash is refused");
	is_int(-EINVAL, name_check("\xe0\x80\xaf", 3),
		"a name with a longer overlong slash is refused");
	is_int(-EINVAL, name_check("\xed\xa0\x80", 3),
		"a name with a surrogate is refused");
	is_int(-EINVAL, name_check("\xf4\x90\x80\x80", 4),
		"a name with U+110000 is refused");
	is_int(-EINVAL, name_check("\xe2\x82", 2),
		"a name with half a character is refused");
	has_str("byte 1 is 0xff", (name_check("a\xff", 2), tarn_fail_message()),
		"the error says which byte is wrong");
	return done(13);
}
