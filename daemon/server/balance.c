/* SPDX-License-Identifier: MIT */
/*
 * The last look at the accounts, when a server ends in good order.
 *
 * Clients, loads and publications have left by then, as at the end of any of
 * them, and each has given back what it was charged with. So what is still in
 * an account is charged for storages and names, or it was counted wrong. That is
 * a mistake of the server's own, and nobody would notice it before a daemon has
 * run for months, and refuses a user what that user may have. It is logged with
 * the figures, and the daemon ends with status 1, which a service manager and a
 * test see. Nothing is lost by that: the memory ends with the daemon anyway.
 *
 * A server that dies, or is killed for an upgrade, leaves no account behind:
 * the next one counts again from the tables.
 */
#include "daemon/loop/log.h"
#include "daemon/server/inspect/audit.h"
#include "daemon/server/server.h"
#include "shm/table_check.h"

int server_balance(const struct server *server)
{
	struct faults faults = {0};
	bool sound;

	/* Accounts are not complete before. */
	if (!server->serving)
		return 0;
	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		audit_user(domain, &faults);
	audit_server(server, &faults);
	for (uint32_t i = 0; i < faults.n; i++)
		log_error("imbalance", log_text("what", faults.lines[i]));
	if (faults.n_more)
		log_error("imbalance", log_u64("more", faults.n_more));
	sound = !faults.n && !faults.n_more;
	faults_clear(&faults);
	return sound ? 0 : 1;
}
