/* SPDX-License-Identifier: MIT */
/*
 * WIRE_REMOVE: a name goes, and only once. A removal leaves no version behind,
 * but a completion (send/completion.c), so one that is sent again takes
 * nothing that was published after it.
 */
#include "daemon/server/server.h"

#include <errno.h>

#include "base/fail.h"

static int take_out(struct client *client, const struct wire_message *m)
{
	struct table_writer *writer = client->domain->writer;
	const char *name = (const char *)m->body;
	int r = name_check(name, m->size);

	if (r == 0)
		r = table_begin(writer);
	if (r < 0)
		return r;
	r = table_remove(writer, name, m->size);
	if (r == 0)
		r = completion_write(client, m->serial, NULL);
	if (r == 0)
		storage_commit(client);
	else
		table_abort(writer);
	return r;
}

int remove_take(struct client *client, const struct wire_message *m)
{
	int r = 0;

	if (!m->again || !completion_take(client, m->serial, NULL))
		r = take_out(client, m);
	if (r == 0)
		client_reply(client, WIRE_OUT(WIRE_DONE, m->serial, NULL, 0));
	return r;
}
