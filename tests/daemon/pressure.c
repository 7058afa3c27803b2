/* SPDX-License-Identifier: MIT */
/* How much is given back: by what is left, whether tasks stall, and what there
 * is to give. */
#include "daemon/server/storage/pressure_relief.h"

#include "tests/kit/tap.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

int main(void)
{
	const uint64_t low = PRESSURE_LOW, high = PRESSURE_HIGH;

	is_int(0, (int64_t)relief_wanted(high, false, GIB), "enough is left");
	is_int(0, (int64_t)relief_wanted(low, false, GIB),
		"between the two nothing is done");
	is_int((int64_t)(high - low + 1),
		(int64_t)relief_wanted(low - 1, false, GIB),
		"below the lower one, up to the upper");
	is_int((int64_t)high, (int64_t)relief_wanted(0, false, GIB),
		"nothing is left");
	is_int((int64_t)MIB, (int64_t)relief_wanted(0, false, MIB),
		"not more than there is");
	is_int(0, (int64_t)relief_wanted(0, true, 0), "there is nothing");
	is_int((int64_t)(GIB / 8), (int64_t)relief_wanted(GIB, true, GIB),
		"a stall costs an eighth");
	is_int((int64_t)(high - low),
		(int64_t)relief_wanted(low, true, 64 * MIB + MIB),
		"and what is lacking, if that is more");
	return done(8);
}
