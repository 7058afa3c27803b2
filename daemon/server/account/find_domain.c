/* SPDX-License-Identifier: MIT */
/* Which domain is meant: by its number, or by the uid whose own it is. */
#include <errno.h>

#include "base/fail.h"
#include "daemon/server/server.h"

struct domain *domain_find(struct server *server, uint32_t number)
{
	struct domain *domain;

	for (domain = server->domains; domain; domain = domain->next)
		if (domain->number == number)
			return domain;
	tarn_fail(EPROTO, "there is no domain %u", number);
	return NULL;
}

struct domain *domain_of_user(struct server *server, uint32_t uid)
{
	struct domain *domain;

	for (domain = server->domains; domain; domain = domain->next)
		if (!domain->spec.name[0] && domain->spec.uid == uid)
			break;
	return domain;
}
