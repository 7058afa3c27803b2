/* SPDX-License-Identifier: MIT */
/*
 * tarnd, but for one mistake: the end of the first load is not counted. It is
 * linked so that calls of quota_return come here (imbalance.c).
 */
#include "daemon/server/account/account.h"

void __real_quota_return(
	struct account *account, enum quota_kind kind, uint64_t n);
void __wrap_quota_return(
	struct account *account, enum quota_kind kind, uint64_t n);

void __wrap_quota_return(
	struct account *account, enum quota_kind kind, uint64_t n)
{
	static bool lost;

	if (kind == QUOTA_LOADS && !lost)
		lost = true;
	else
		__real_quota_return(account, kind, n);
}
