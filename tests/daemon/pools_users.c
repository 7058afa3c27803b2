/* SPDX-License-Identifier: MIT */
/*
 * Pools that users share: a reader sees names and bytes and cannot change
 * them, and a user who may not see a pool learns nothing at all, not even that
 * it exists. A user's own memory stays its own.
 *
 * The users are children of root's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/kit/pool_deeds.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"

static struct pool_kit kit;

/* ---- what users do ----------------------------------------------------- */

static int keep_first(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	(void)name;
	(void)version;
	*(struct tarn_descriptor *)arg = *descriptor;
	return 1;
}

/* A client imports a descriptor, which it got from another, under a pool. */
static void import(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	tarn_store *store = NULL;
	tarn_tensor *tensor = NULL;
	int r = wish_open(k, wish, &store);

	if (r >= 0)
		r = tarn_store_import(store, &wish->descriptor, &tensor);
	seen_error(seen, r);
	tarn_tensor_unref(tensor);
	tarn_store_unref(store);
}

/* A client asks for all segments under its own memory; n: how many it is
 * sent. */
static void ask_segments(const struct pool_kit *k, struct seen *seen, void *arg)
{
	struct msg_segments ask = {.count = 64};
	struct raw raw;

	(void)arg;
	raw_open(&raw, k->daemon.socket);
	raw_send(&raw, WIRE_SEGMENTS, &ask, sizeof(ask), NULL, 0);
	seen->r = raw_receive(&raw, RAW_PATIENCE_MS);
	seen->n = (uint64_t)raw.n_fds;
	raw_close(&raw);
}

/* ---- and what they see ------------------------------------------------- */

static const struct seen *as(uint32_t uid,
	void (*fn)(const struct pool_kit *k, struct seen *seen, void *arg),
	struct wish wish)
{
	return kit_pool_as(&kit, uid, fn, &wish);
}

static void those_who_may(void)
{
	static const struct {
		uint32_t uid;
		const char *who;
	} readers[] = {{MEMBER, "a member"}, {RELATIVE, "a first member"}};
	const char *file = kit_pool_file(&kit, "team", 200000, 5, 0);
	struct wish team = {.pool = "team", .file = file, .name = "w"};
	struct wish name = {.pool = "team", .name = "w/t"};
	const struct seen *s;

	s = as(OWNER, deed_load, team);
	is_int(0, s->r, "the owner loads a file into the pool");
	for (int i = 0; i < 2; i++) {
		uint32_t uid = readers[i].uid;

		s = as(uid, deed_look, name);
		ok(s->r == 0 && s->bytes[9] == 5,
			"%s of the group reads the pool", readers[i].who);
		s = as(uid, deed_load, team);
		is_int(-EPERM, s->r, "%s cannot load into the pool",
			readers[i].who);
		has_str("the pool team belongs to uid 61001", s->text,
			"the error names the owner of the pool");
		s = as(uid, deed_drop, name);
		is_int(-EPERM, s->r, "%s cannot remove a name of the pool",
			readers[i].who);
		s = as(uid, deed_look, name);
		is_int(0, s->r, "the pool is unchanged for %s", readers[i].who);
	}
	s = as(0, deed_look, name);
	is_int(0, s->r, "root reads the pool");
	s = as(STRANGER, deed_load,
		(struct wish) {.pool = "common", .file = file, .name = "s"});
	is_int(0, s->r, "any user loads where all may write");
	s = as(MEMBER, deed_drop,
		(struct wish) {.pool = "common", .name = "s/t"});
	is_int(0, s->r, "any user removes where all may write");
}

static void those_who_may_not(void)
{
	struct wish team = {.pool = "team", .name = "w/t"};
	struct wish none = {.pool = "maet", .name = "w/t"};
	struct wish own = {.pool = ""};
	char closed[600], *at;
	tarn_store *store = NULL;
	const struct seen *s;

	s = as(STRANGER, deed_look, team);
	is_int(-EACCES, s->r, "a stranger is refused");
	snprintf(closed, sizeof(closed), "%s", s->text);
	s = as(STRANGER, deed_look, none);
	is_int(-EACCES, s->r,
		"a pool that does not exist is refused in the same way");
	at = strstr(closed, "team");
	if (at)
		memcpy(at, "maet", 4);
	is_str(closed, s->text, "both refusals have the same words");
	s = as(STRANGER, deed_list, own);
	ok(s->r == 0 && s->n == 0, "a stranger has no names of its own");
	s = as(STRANGER, ask_segments, own);
	ok(s->r == WIRE_SEGMENT_FDS && s->n == 0,
		"a stranger's request for segments brings none (%d, %d)", s->r,
		(int)s->n);
	if (tarn_store_open(kit.daemon.socket,
		    &(const struct tarn_store_options) {.pool = "team"},
		    &store) < 0 ||
		tarn_store_list(store, NULL, keep_first, &own.descriptor) != 1)
		bail("root sees nothing: %s", tarn_error_message());
	s = as(STRANGER, import, own);
	ok(s->r < 0, "a stranger cannot import a descriptor of the pool");
	own.pool = "team";
	s = as(MEMBER, import, own);
	is_int(0, s->r, "a reader of the pool can import the descriptor");
	own.pool = "";
	s = as(MEMBER, import, own);
	ok(s->r < 0, "the descriptor is valid in that pool only");
	tarn_store_unref(store);
	s = as(OVERFLOW, deed_look, own);
	ok(s->r < 0, "the overflow uid is refused");
	has_str("overflow uid", s->text, "the error names the overflow uid");
}

/* What one user leaves behind in a page is not in another's tensor. */
static void nothing_is_inherited(void)
{
	/* The whole pool, so that the second must take its place. */
	char *first = strdup(kit_pool_file(&kit, "first", 2093056, 0xaa, 0));
	char *second = strdup(kit_pool_file(&kit, "second", 100, 0x55, 1000));
	tarn_store *store = NULL;
	tarn_tensor *tensor = NULL;
	const unsigned char *p, *page;
	const struct seen *s;
	int foreign = 0;

	s = as(STRANGER, deed_load,
		(struct wish) {.pool = "fresh", .file = first, .name = "a"});
	is_int(0, s->r, "one user fills some pages");
	s = as(STRANGER, deed_drop,
		(struct wish) {.pool = "fresh", .name = "a/t"});
	is_int(0, s->r, "the first user removes the tensor");
	s = as(MEMBER, deed_load,
		(struct wish) {.pool = "fresh", .file = second, .name = "b"});
	is_int(0, s->r, "another user takes a page");
	if (tarn_store_open(kit.daemon.socket,
		    &(const struct tarn_store_options) {.pool = "fresh"},
		    &store) < 0 ||
		tarn_store_lookup(store, "b/t", &tensor) < 0)
		bail("no b/t: %s", tarn_error_message());
	p = tarn_tensor_data(tensor);
	page = (const unsigned char *)((uintptr_t)p & ~4095ul);
	ok(p > page + 1000, "another user's tensor begins inside the page");
	for (int i = 0; i < 4096; i++)
		foreign += page[i] == 0xaa;
	is_int(0, foreign, "another user's page has no byte of the first user");
	is_int(0x55, p[99], "the page has the second user's bytes");
	tarn_tensor_unref(tensor);
	tarn_store_unref(store);
	free(first);
	free(second);
}

static void listener(void)
{
	struct stat st = {0};

	stat(kit.daemon.socket, &st);
	is_int(0666, st.st_mode & 0777, "root's daemon lets every user in");
}

static void the_next_server(void)
{
	const char *file = kit_pool_file(&kit, "next", 5000, 6, 0);
	const struct seen *s;

	s = as(0, deed_take_over,
		(struct wish) {.pool = "common", .file = file, .name = "over"});
	ok(s->r == 0 && s->n == 1, "root's server is killed");
	s = as(MEMBER, deed_drop,
		(struct wish) {.pool = "team", .name = "w/t"});
	is_int(-EPERM, s->r,
		"a reader may only read under the next server, too");
}

int main(void)
{
	if (!kit_pool_is_root())
		skip_all("several users need root");
	kit_pool_start(&kit,
		"[daemon]\nidle = 1\n"
		"[pool team]\nowner = 61001\ngroup = 62001\nmode = 0640\n"
		"[pool common]\nmode = 0666\n"
		"[pool fresh]\nmode = 0666\nsegment-size = 2M\nsize = 2M\n");
	listener();
	those_who_may();
	those_who_may_not();
	nothing_is_inherited();
	the_next_server();
	is_int(0, kit_pool_stop(&kit), "the daemon ends without an error");
	return done(34);
}
