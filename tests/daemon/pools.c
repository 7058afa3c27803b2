/* SPDX-License-Identifier: MIT */
/*
 * Pools, as one user sees them: names in one are in no other, the environment
 * selects one, a hello with a malformed name gets no descriptors, and a load
 * that does not fit into a pool is refused with its limit.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/huge_pages.h"
#include "tests/kit/pool_deeds.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"

static struct pool_kit kit;

static const struct seen *me(
	void (*fn)(const struct pool_kit *k, struct seen *seen, void *arg),
	struct wish wish)
{
	return kit_pool_as(&kit, geteuid(), fn, &wish);
}

static void names_are_apart(void)
{
	const char *file = kit_pool_file(&kit, "apart", 100000, 7, 0);
	const struct seen *s;

	s = me(deed_load,
		(struct wish) {.pool = "mine", .file = file, .name = "m"});
	is_int(0, s->r, "a file is loaded into a pool");
	s = me(deed_look, (struct wish) {.pool = "mine", .name = "m/t"});
	ok(s->r == 0 && s->bytes[0] == 7 && s->bytes[63] == 7,
		"the file is found in the pool, with its bytes");
	s = me(deed_look, (struct wish) {.pool = "", .name = "m/t"});
	is_int(-ENOENT, s->r, "the file is not found in the user's own memory");
	s = me(deed_look, (struct wish) {.pool = "second", .name = "m/t"});
	is_int(-ENOENT, s->r,
		"a tensor of a pool is not found in another pool");
	s = me(deed_load,
		(struct wish) {.pool = "", .file = file, .name = "m"});
	is_int(0, s->r, "the user's own memory can have the same name");
	s = me(deed_drop, (struct wish) {.pool = "", .name = "m/t"});
	is_int(0, s->r,
		"a tensor of the same name is removed from the user's memory");
	s = me(deed_list, (struct wish) {.pool = "mine"});
	is_int(1, (int64_t)s->n, "removing one name leaves that of the pool");
}

static void environment(void)
{
	const struct seen *s;

	setenv("TARN_POOL", "mine", 1);
	s = me(deed_look, (struct wish) {.name = "m/t"});
	is_int(0, s->r, "TARN_POOL selects the pool");
	s = me(deed_look, (struct wish) {.pool = "", .name = "m/t"});
	is_int(-ENOENT, s->r, "an empty name means no pool");
	setenv("TARN_POOL", "nowhere", 1);
	s = me(deed_look, (struct wish) {.name = "m/t"});
	is_int(-EACCES, s->r, "a pool that does not exist is an error");
	unsetenv("TARN_POOL");
}

/* Hello, with what bytes there are behind it: the type of the answer. */
static int hello(struct raw *raw, const void *pool, size_t size)
{
	struct {
		struct msg_hello head;
		char pool[200];
	} body = {.head = {.version = PROTOCOL_VERSION,
			  .version_min = PROTOCOL_OLDEST}};

	memcpy(body.pool, pool, size);
	raw_send(raw, WIRE_HELLO, &body, sizeof(body.head) + size, NULL, 0);
	return raw_receive(raw, RAW_PATIENCE_MS);
}

static void hostile_hellos(void)
{
	static const struct {
		const char *bytes, *what;
		size_t size;
	} bad[] = {
		{"mine\0", "with a zero behind it", 5},
		{"min", "that is only a beginning", 3},
		{"mine2", "that goes on", 5},
		{"\0\0\0\0", "of zeros", 4},
		{"../../../../etc/shadow", "that is a path", 22},
		{"\xff\xfe%n%s\n\x1b[2J", "of rubbish", 11},
		{"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "as long as can be", 32},
	};
	char longer[40];
	struct raw raw;

	raw_connect(&raw, kit.daemon.socket);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ok(hello(&raw, bad[i].bytes, bad[i].size) == WIRE_ERROR &&
				raw.error == EACCES,
			"a malformed name of a pool is refused: %s",
			bad[i].what);
	is_int(WIRE_WELCOME, hello(&raw, "mine", 4),
		"a hello with a right name is welcome afterwards");
	is_int(WIRE_ERROR, hello(&raw, "second", 6),
		"a second hello on the connection is refused");
	ok(raw_is_closed(&raw),
		"a client that names two pools is disconnected");
	raw_close(&raw);
	memset(longer, 'x', sizeof(longer));
	raw_connect(&raw, kit.daemon.socket);
	hello(&raw, longer, 33);
	ok(raw_is_closed(&raw),
		"a client with too long a name of a pool is disconnected");
	raw_close(&raw);
}

static void size_limit(void)
{
	char *small = strdup(kit_pool_file(&kit, "small", 1 << 20, 1, 0));
	const char *large = kit_pool_file(&kit, "large", 9 << 20, 2, 0);
	const struct seen *s;

	s = me(deed_load, (struct wish) {.pool = "small", .file = large});
	is_int(-ENOSPC, s->r, "a load larger than its pool is refused");
	has_str("the pool small of 8.0 MiB", s->text,
		"the error contains 'the pool small of 8.0 MiB'");
	s = me(deed_load, (struct wish) {.pool = "small", .file = small});
	is_int(0, s->r, "a load smaller than its pool succeeds");
	free(small);
}

static void huge_pages(void)
{
	const struct wish load = {.pool = "huge",
		.file = kit_pool_file(&kit, "huge", 3 << 20, 9, 0),
		.name = "h"};
	const struct seen *s;

	huge_pages_turn();
	if (huge_pages_free() == 0) {
		s = me(deed_load, load);
		is_int(-ENOSPC, s->r, "without a reserve there is no pool");
		has_str("the pool huge needs 2 huge pages of 2 MiB, and 0 of ",
			s->text,
			"the error says how many pages are needed and free");
	} else {
		skip(2, "huge pages are reserved");
	}
	if (huge_pages_reserve(2)) {
		s = me(deed_load, load);
		is_int(0, s->r, "a load into huge pages");
		s = me(deed_look,
			(struct wish) {.pool = "huge", .name = "h/t"});
		is_int(9, s->bytes[63],
			"a file loaded into huge pages has its bytes");
	} else {
		skip(2, "no huge pages of 2 MiB can be reserved");
	}
}

int main(void)
{
	kit_pool_start(&kit, "[daemon]\nidle = 1\n"
			     "[pool mine]\n[pool second]\n"
			     "[pool small]\nsize = 8M\nsegment-size = 8M\n"
			     "[pool huge]\npages = 2m\nsegment-size = 4M\n");
	names_are_apart();
	environment();
	hostile_hellos();
	size_limit();
	huge_pages();
	is_int(0, kit_pool_stop(&kit), "the daemon ends as it should");
	huge_pages_give_back();
	return done(29);
}
