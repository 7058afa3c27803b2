/* SPDX-License-Identifier: MIT */
/*
 * Pools that users share: who may see one sees its names and bytes, who may
 * only read cannot change it, and who may not see it learns nothing at all,
 * not even that it is there. What a uid has of its own stays its own.
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

/* A descriptor that somebody gave him, taken in under a pool. */
static void import(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	tarn_store *store = NULL;
	tarn_tensor *tensor = NULL;
	int r = tarn_store_open_pool(k->daemon.socket, wish->pool, &store);

	if (r >= 0)
		r = tarn_store_import(store, &wish->descriptor, &tensor);
	seen_error(seen, r);
	tarn_tensor_unref(tensor);
	tarn_store_unref(store);
}

/* How many segments he is sent who asks for all, under his own memory. */
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
	is_int(0, s->r, "the owner loads");
	for (int i = 0; i < 2; i++) {
		uint32_t uid = readers[i].uid;

		s = as(uid, deed_look, name);
		ok(s->r == 0 && s->bytes[9] == 5, "%s of the group reads",
			readers[i].who);
		s = as(uid, deed_load, team);
		is_int(-EPERM, s->r, "%s cannot load", readers[i].who);
		has_str("the pool team belongs to uid 61001", s->text,
			"the error names the owner of the pool");
		s = as(uid, deed_drop, name);
		is_int(-EPERM, s->r, "%s cannot remove", readers[i].who);
		s = as(uid, deed_look, name);
		is_int(0, s->r, "all is as it was for %s", readers[i].who);
	}
	s = as(0, deed_look, name);
	is_int(0, s->r, "root reads");
	s = as(STRANGER, deed_load,
		(struct wish) {.pool = "common", .file = file, .name = "s"});
	is_int(0, s->r, "anybody loads where all may write");
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
	is_int(-EACCES, s->r, "a stranger does not get in");
	snprintf(closed, sizeof(closed), "%s", s->text);
	s = as(STRANGER, deed_look, none);
	is_int(-EACCES, s->r, "as with a pool that is not there");
	at = strstr(closed, "team");
	if (at)
		memcpy(at, "maet", 4);
	is_str(closed, s->text, "in the same words");
	s = as(STRANGER, deed_list, own);
	ok(s->r == 0 && s->n == 0, "of his own he has no names");
	s = as(STRANGER, ask_segments, own);
	ok(s->r == WIRE_SEGMENT_FDS && s->n == 0,
		"who asks for memory is sent none (%d, %d)", s->r, (int)s->n);
	if (tarn_store_open_pool(kit.daemon.socket, "team", &store) < 0 ||
		tarn_store_list(store, NULL, keep_first, &own.descriptor) != 1)
		bail("root sees nothing: %s", tarn_error_message());
	s = as(STRANGER, import, own);
	ok(s->r < 0, "a descriptor from there is of no use to him");
	own.pool = "team";
	s = as(MEMBER, import, own);
	is_int(0, s->r, "as it is to who may read");
	own.pool = "";
	s = as(MEMBER, import, own);
	ok(s->r < 0, "in that pool, and nowhere else");
	tarn_store_unref(store);
	s = as(OVERFLOW, deed_look, own);
	ok(s->r < 0, "the overflow uid gets nothing");
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
	is_int(0, s->r, "another takes one");
	if (tarn_store_open_pool(kit.daemon.socket, "fresh", &store) < 0 ||
		tarn_store_lookup(store, "b/t", &tensor) < 0)
		bail("no b/t: %s", tarn_error_message());
	p = tarn_tensor_data(tensor);
	page = (const unsigned char *)((uintptr_t)p & ~4095ul);
	ok(p > page + 1000, "it begins inside the page");
	for (int i = 0; i < 4096; i++)
		foreign += page[i] == 0xaa;
	is_int(0, foreign, "nothing of the first is in its page");
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
	is_int(0666, st.st_mode & 0777, "root's daemon lets everybody in");
}

static void the_next_server(void)
{
	const char *file = kit_pool_file(&kit, "next", 5000, 6, 0);
	const struct seen *s;

	s = as(0, deed_take_over,
		(struct wish) {.pool = "common", .file = file, .name = "over"});
	ok(s->r == 0 && s->n == 1, "the server is killed under root");
	s = as(MEMBER, deed_drop,
		(struct wish) {.pool = "team", .name = "w/t"});
	is_int(-EPERM, s->r, "who could only read still can only");
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
	is_int(0, kit_pool_stop(&kit), "the daemon ends as it should");
	return done(34);
}
