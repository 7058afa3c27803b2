/* SPDX-License-Identifier: MIT */
/*
 * WIRE_REMOVE: a name goes, and only once.
 *
 * A removal leaves no version behind that could carry its token, so what is
 * asked again is judged by what stands. Nothing does: it was done, by whomever.
 * What stands was written before it was first asked: it was not done, since
 * that would be gone. What was written later may have come in the place of what
 * it had removed, and to remove that as well is what nobody asked for.
 */
#include "daemon/server.h"

#include <errno.h>
#include <string.h>

#include <tarn/store.h>

#include "base/fail.h"

struct removal {
	const char *name;
	uint32_t size;
	uint64_t since; /* as in msg_publish; 0: it is not said */
};

/* What has a NUL elsewhere is all name, and none. */
static int parse(const struct wire_message *m, struct removal *ret)
{
	size_t size = strnlen((const char *)m->body, m->size);

	*ret = (struct removal) {
		.name = (const char *)m->body, .size = m->size};
	if (size + REMOVE_SINCE_SIZE == m->size) {
		ret->size = (uint32_t)size;
		memcpy(&ret->since, m->body + size + 1, sizeof(ret->since));
	}
	/* Whoever asks for that cannot count: no name is so long. */
	if (ret->size > TARN_NAME_MAX)
		return tarn_fail(EPROTO,
			"a removal of a name of %u bytes; %u are allowed",
			ret->size, TARN_NAME_MAX);
	return 0;
}

/* Asked again. */
static int check_doubt(const struct table *table, const struct removal *r)
{
	struct tarn_descriptor d;
	uint64_t version;

	if (!r->since || table_lookup(table, r->name, r->size, &d, &version) ||
		!table_written_since(table, r->name, r->size, r->since))
		return 0;
	return tarn_fail(EIO,
		"\"%.*s\" was published by others while the daemon's server "
		"was replaced: nobody can tell whether this removal was done; "
		"look at it, and remove it again if it shall go",
		(int)r->size, r->name);
}

int remove_take(struct client *client, const struct wire_message *m)
{
	struct rule *rule = client->rule;
	struct removal removal;
	int r = parse(m, &removal);

	if (r == 0 && m->again)
		r = check_doubt(&rule->table, &removal);
	if (r == 0)
		r = storage_remove_name(rule, removal.name, removal.size);
	/* The server that was asked first may have done it. */
	if (r == -ENOENT && m->again)
		r = 0;
	if (r == 0)
		client_reply(client, WIRE_DONE, m->serial, NULL, 0, NULL, 0);
	return r;
}
