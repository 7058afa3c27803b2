/* SPDX-License-Identifier: MIT */
/*
 * The first exchange on a connection: the protocol version that both use, which
 * daemon it is, its table, and a lease page.
 */
#include <string.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/store.h"

static int check(const struct connection *c, const struct msg_welcome *welcome,
	const struct wire_message *reply)
{
	if (welcome->version < PROTOCOL_OLDEST ||
		welcome->version > PROTOCOL_VERSION)
		return tarn_fail(EPROTO,
			"daemon at %s: it uses protocol version %u, this "
			"library %d to %d; stop it, and the next open starts a "
			"matching one",
			c->peer, welcome->version, PROTOCOL_OLDEST,
			PROTOCOL_VERSION);
	if (reply->n_fds != 2)
		return tarn_fail(EPROTO,
			"daemon at %s: its welcome brought %d descriptors, not "
			"the table and the leases",
			c->peer, reply->n_fds);
	return 0;
}

int store_hello(struct connection *c, const char *pool, uint32_t flags,
	struct welcome *ret)
{
	struct {
		struct msg_hello head;
		char pool[WIRE_POOL_MAX];
	} hello = {.head = {
			   .version = PROTOCOL_VERSION,
			   .version_min = PROTOCOL_OLDEST,
			   .flags = flags,
		   }};
	size_t n = strnlen(pool, sizeof(hello.pool));
	struct wire_message reply = {0};
	struct msg_welcome welcome;
	int r;

	memcpy(hello.pool, pool, n);
	r = connection_call(c, WIRE_HELLO, &hello, sizeof(hello.head) + n,
		WIRE_WELCOME, sizeof(welcome), &reply);
	if (r < 0)
		return r;
	memcpy(&welcome, reply.body, sizeof(welcome));
	r = check(c, &welcome, &reply);
	if (r >= 0)
		*ret = (struct welcome) {
			.version = welcome.version,
			.instance = welcome.instance,
			.table_fd = wire_take_fd(&reply, 0),
			.lease_fd = wire_take_fd(&reply, 1),
		};
	wire_message_clear(&reply);
	return r;
}

void welcome_done(struct welcome *welcome)
{
	welcome->table_fd = fd_close(welcome->table_fd);
	welcome->lease_fd = fd_close(welcome->lease_fd);
}
