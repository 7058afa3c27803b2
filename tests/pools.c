/* SPDX-License-Identifier: MIT */
/*
 * Pools that users share: who may see one sees its names and bytes, who may
 * only read cannot change it, and who may not see it learns nothing at all,
 * not even that it is there. What a uid has of its own stays its own.
 *
 * Several users are children of root's; what one user can show alone is shown
 * without root too.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/pool_kit.h"
#include "tests/raw_client.h"
#include "tests/tap.h"

static struct pool_kit kit;

/* ---- what users do ----------------------------------------------------- */

struct wish {
	const char *pool, *file, *name;
	struct tarn_descriptor descriptor;
};

/* Opens the pool, and finds the name in it, or just the pool. */
static void look(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	tarn_store *store = NULL;
	tarn_tensor *tensor = NULL;
	int r = tarn_store_open_pool(k->daemon.socket, wish->pool, &store);

	if (r >= 0 && wish->name)
		r = tarn_store_lookup(store, wish->name, &tensor);
	if (tensor)
		memcpy(seen->bytes, tarn_tensor_data(tensor), 64);
	seen_error(seen, r);
	tarn_tensor_unref(tensor);
	tarn_store_unref(store);
}

/* What the daemon says of it. */
static void size_of(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	struct tarn_report *report = NULL;
	tarn_store *store = NULL;
	int r = tarn_store_open_pool(k->daemon.socket, wish->pool, &store);

	if (r >= 0)
		r = tarn_store_get_report(store, &report);
	for (uint32_t i = 0; r >= 0 && i < report->n_pools; i++)
		if (strcmp(report->pools[i].name, wish->pool) == 0)
			seen->n = report->pools[i].size;
	seen_error(seen, r);
	tarn_report_free(report);
	tarn_store_unref(store);
}

static void load(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	const struct tarn_load_options options = {.name = wish->name};
	tarn_store *store = NULL;
	tarn_file *file = NULL;
	int r = tarn_file_open(wish->file, &file);

	if (r >= 0)
		r = tarn_store_open_pool(k->daemon.socket, wish->pool, &store);
	if (r >= 0)
		r = tarn_store_load(store, file, &options, NULL, NULL);
	seen_error(seen, r);
	tarn_file_unref(file);
	tarn_store_unref(store);
}

static void drop(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	tarn_store *store = NULL;
	int r = tarn_store_open_pool(k->daemon.socket, wish->pool, &store);

	if (r >= 0)
		r = tarn_store_remove(store, wish->name);
	seen_error(seen, r);
	tarn_store_unref(store);
}

static int count(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	(void)name;
	(void)version;
	((struct seen *)arg)->n++;
	memcpy(((struct seen *)arg)->bytes, &descriptor->storage, 4);
	return 0;
}

static void list(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	tarn_store *store = NULL;
	int r = tarn_store_open_pool(k->daemon.socket, wish->pool, &store);

	if (r >= 0)
		r = tarn_store_list(store, NULL, count, seen);
	seen_error(seen, r);
	tarn_store_unref(store);
}

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
	raw_say(&raw, WIRE_SEGMENTS, &ask, sizeof(ask), NULL, 0);
	seen->r = raw_hear(&raw, RAW_PATIENCE_MS);
	seen->n = (uint64_t)raw.n_fds;
	raw_close(&raw);
}

/* ---- alone ------------------------------------------------------------- */

static const struct seen *me(
	void (*fn)(const struct pool_kit *k, struct seen *seen, void *arg),
	struct wish wish)
{
	return kit_as(&kit, geteuid(), fn, &wish);
}

static void names_are_apart(void)
{
	const char *file = kit_file(&kit, "apart", 100000, 7, 0);
	const struct seen *s;

	s = me(load, (struct wish) {.pool = "mine", .file = file, .name = "m"});
	is_int(0, s->r, "a file is loaded into a pool");
	s = me(look, (struct wish) {.pool = "mine", .name = "m/t"});
	ok(s->r == 0 && s->bytes[0] == 7 && s->bytes[63] == 7,
		"it is found there, with its bytes");
	s = me(look, (struct wish) {.pool = "", .name = "m/t"});
	is_int(-ENOENT, s->r, "it is not in this user's own memory");
	s = me(look, (struct wish) {.pool = "second", .name = "m/t"});
	is_int(-ENOENT, s->r, "nor in another pool");
	s = me(load, (struct wish) {.pool = "", .file = file, .name = "m"});
	is_int(0, s->r, "the same name in this user's own memory");
	s = me(drop, (struct wish) {.pool = "", .name = "m/t"});
	is_int(0, s->r, "is another: it is removed");
	s = me(list, (struct wish) {.pool = "mine"});
	is_int(1, (int64_t)s->n, "and that in the pool is still there");
}

static void environment(void)
{
	const struct seen *s;

	setenv("TARN_POOL", "mine", 1);
	s = me(look, (struct wish) {.name = "m/t"});
	is_int(0, s->r, "TARN_POOL names the pool");
	s = me(look, (struct wish) {.pool = "", .name = "m/t"});
	is_int(-ENOENT, s->r, "an empty name is no pool, whatever it says");
	setenv("TARN_POOL", "nowhere", 1);
	s = me(look, (struct wish) {.name = "m/t"});
	is_int(-EACCES, s->r, "one that is not there is an error");
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
	raw_say(raw, WIRE_HELLO, &body, sizeof(body.head) + size, NULL, 0);
	return raw_hear(raw, RAW_PATIENCE_MS);
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
			"a name %s is none", bad[i].what);
	is_int(WIRE_WELCOME, hello(&raw, "mine", 4),
		"after that the right one is welcome");
	is_int(WIRE_ERROR, hello(&raw, "second", 6), "but not a second");
	ok(raw_is_closed(&raw), "who says two is shown the door");
	raw_close(&raw);
	memset(longer, 'x', sizeof(longer));
	raw_connect(&raw, kit.daemon.socket);
	hello(&raw, longer, 33);
	ok(raw_is_closed(&raw), "a name that is too long ends it");
	raw_close(&raw);
}

static void size_limit(void)
{
	char *small = strdup(kit_file(&kit, "small", 1 << 20, 1, 0));
	const char *large = kit_file(&kit, "large", 9 << 20, 2, 0);
	const struct seen *s;

	s = me(load, (struct wish) {.pool = "small", .file = large});
	is_int(-ENOSPC, s->r, "what is larger than its pool does not fit");
	has_str("the pool small of 8.0 MiB", s->text, "which is said");
	s = me(load, (struct wish) {.pool = "small", .file = small});
	is_int(0, s->r, "a smaller one does");
	free(small);
}

static uint64_t free_huge_pages(void)
{
	uint64_t n = 0;
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/"
			"free_hugepages",
		"re");

	if (f && fscanf(f, "%lu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

static void huge_pages(void)
{
	const char *file = kit_file(&kit, "huge", 3 << 20, 9, 0);
	uint64_t n = free_huge_pages();
	const struct seen *s;

	s = me(load, (struct wish) {.pool = "huge", .file = file, .name = "h"});
	if (n == 0) {
		is_int(-ENOSPC, s->r, "without a reserve there is no pool");
		has_str("huge pages of 2 MiB", s->text, "which is said");
		skip(2, "no huge pages of 2 MiB are reserved");
		return;
	}
	skip(2, "huge pages are reserved");
	is_int(0, s->r, "a load into huge pages");
	s = me(look, (struct wish) {.pool = "huge", .name = "h/t"});
	is_int(9, s->bytes[63], "and its bytes");
}

static void reload(void)
{
	const struct seen *s;

	s = me(look, (struct wish) {.pool = "late"});
	is_int(-EACCES, s->r, "a pool that is not listed yet is not there");
	kit_configure(
		&kit, "[pool mine]\n[pool late]\n[pool second]\nmode = 0644\n");
	kill(kit.daemon.pid, SIGHUP);
	ok(kit_logs(&kit, "reload_kept"), "what cannot change now is said");
	ok(kit_logs(&kit, "reload role=keeper"), "the configuration is read");
	for (int i = 0; i < 200; i++) {
		s = me(look, (struct wish) {.pool = "late"});
		if (s->r == 0)
			break;
		usleep(20000);
	}
	is_int(0, s->r, "the new pool is there");
	kit_configure(
		&kit, "[pool mine]\n[pool late]\nsize = 64M\n[pool second]\n");
	kill(kit.daemon.pid, SIGHUP);
	for (int i = 0; i < 200; i++) {
		s = me(size_of, (struct wish) {.pool = "late"});
		if (s->n == 64 << 20)
			break;
		usleep(20000);
	}
	is_int(64 << 20, (int64_t)s->n, "and its size can be changed");
	kit_configure(&kit, "[pool late]\nmode = 777\n");
	kill(kit.daemon.pid, SIGHUP);
	ok(kit_logs(&kit, "conf:2: mode must be"), "an error is said");
	s = me(look, (struct wish) {.pool = "mine", .name = "m/t"});
	is_int(0, s->r, "and changes nothing");
}

/* Killed under a client of a pool: the next server finds him there. */
static void take_over(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	const struct tarn_load_options options = {.name = wish->name};
	struct tarn_store_status before, after = {0};
	tarn_store *store = NULL;
	tarn_file *file = NULL;
	int r = tarn_store_open_pool(k->daemon.socket, wish->pool, &store);

	if (r >= 0)
		r = tarn_store_get_status(store, &before);
	if (r >= 0)
		kill(before.server_pid, SIGKILL);
	if (r >= 0)
		r = tarn_file_open(wish->file, &file);
	if (r >= 0)
		r = tarn_store_load(store, file, &options, NULL, NULL);
	if (r >= 0)
		r = tarn_store_get_status(store, &after);
	seen->n = after.server_pid && after.server_pid != before.server_pid;
	seen_error(seen, r);
	tarn_file_unref(file);
	tarn_store_unref(store);
}

static void restart(void)
{
	const char *file = kit_file(&kit, "late", 5000, 6, 0);
	struct wish wish = {.pool = "mine", .file = file, .name = "over"};
	const struct seen *s = me(take_over, wish);

	ok(s->r == 0 && s->n == 1, "a client of a pool goes on");
	s = me(look, (struct wish) {.pool = "mine", .name = "over/t"});
	ok(s->r == 0 && s->bytes[0] == 6, "what it loads is there");
	s = me(look, (struct wish) {.pool = "", .name = "over/t"});
	is_int(-ENOENT, s->r, "and nowhere else");
	s = me(look, (struct wish) {.pool = "mine", .name = "m/t"});
	is_int(0, s->r, "as is what was there before");
}

/* ---- several ----------------------------------------------------------- */

static const struct seen *as(uint32_t uid,
	void (*fn)(const struct pool_kit *k, struct seen *seen, void *arg),
	struct wish wish)
{
	return kit_as(&kit, uid, fn, &wish);
}

static void those_who_may(void)
{
	static const struct {
		uint32_t uid;
		const char *who;
	} readers[] = {{MEMBER, "a member"}, {RELATIVE, "a first member"}};
	const char *file = kit_file(&kit, "team", 200000, 5, 0);
	struct wish team = {.pool = "team", .file = file, .name = "w"};
	struct wish name = {.pool = "team", .name = "w/t"};
	const struct seen *s;

	s = as(OWNER, load, team);
	is_int(0, s->r, "the owner loads");
	for (int i = 0; i < 2; i++) {
		uint32_t uid = readers[i].uid;

		s = as(uid, look, name);
		ok(s->r == 0 && s->bytes[9] == 5, "%s of the group reads",
			readers[i].who);
		s = as(uid, load, team);
		is_int(-EPERM, s->r, "%s cannot load", readers[i].who);
		has_str("the pool team belongs to uid 61001", s->text,
			"and is told whose it is");
		s = as(uid, drop, name);
		is_int(-EPERM, s->r, "%s cannot remove", readers[i].who);
		s = as(uid, look, name);
		is_int(0, s->r, "all is as it was for %s", readers[i].who);
	}
	s = as(0, look, name);
	is_int(0, s->r, "root reads");
	s = as(STRANGER, load,
		(struct wish) {.pool = "common", .file = file, .name = "s"});
	is_int(0, s->r, "anybody loads where all may write");
	s = as(MEMBER, drop, (struct wish) {.pool = "common", .name = "s/t"});
	is_int(0, s->r, "and anybody removes there");
}

static void those_who_may_not(void)
{
	struct wish team = {.pool = "team", .name = "w/t"};
	struct wish none = {.pool = "maet", .name = "w/t"};
	struct wish own = {.pool = ""};
	char closed[600], *at;
	tarn_store *store = NULL;
	const struct seen *s;

	s = as(STRANGER, look, team);
	is_int(-EACCES, s->r, "a stranger does not get in");
	snprintf(closed, sizeof(closed), "%s", s->text);
	s = as(STRANGER, look, none);
	is_int(-EACCES, s->r, "as with a pool that is not there");
	at = strstr(closed, "team");
	if (at)
		memcpy(at, "maet", 4);
	is_str(closed, s->text, "in the same words");
	s = as(STRANGER, list, own);
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
	s = as(OVERFLOW, look, own);
	ok(s->r < 0, "the overflow uid gets nothing");
	has_str("overflow uid", s->text, "and is told why");
}

/* What one user leaves behind in a page is not in another's tensor. */
static void nothing_is_inherited(void)
{
	/* The whole pool, so that the second must take its place. */
	char *first = strdup(kit_file(&kit, "first", 2093056, 0xaa, 0));
	char *second = strdup(kit_file(&kit, "second", 100, 0x55, 1000));
	tarn_store *store = NULL;
	tarn_tensor *tensor = NULL;
	const unsigned char *p, *page;
	const struct seen *s;
	int foreign = 0;

	s = as(STRANGER, load,
		(struct wish) {.pool = "fresh", .file = first, .name = "a"});
	is_int(0, s->r, "one user fills some pages");
	s = as(STRANGER, drop, (struct wish) {.pool = "fresh", .name = "a/t"});
	is_int(0, s->r, "and gives them back");
	s = as(MEMBER, load,
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
	is_int(0x55, p[99], "and its own bytes are");
	tarn_tensor_unref(tensor);
	tarn_store_unref(store);
	free(first);
	free(second);
}

static void door(void)
{
	struct stat st = {0};

	stat(kit.daemon.socket, &st);
	is_int(0666, st.st_mode & 0777, "root's daemon lets everybody in");
}

int main(void)
{
	static const char alone[] = "[daemon]\nidle = 1\n"
				    "[pool mine]\n[pool second]\n"
				    "[pool small]\nsize = 8M\n"
				    "segment-size = 8M\n"
				    "[pool huge]\npage-size = 2M\n"
				    "segment-size = 4M\n";
	static const char several[] = "[pool team]\nowner = 61001\n"
				      "group = 62001\nmode = 0640\n"
				      "[pool common]\nmode = 0666\n"
				      "[pool fresh]\nmode = 0666\n"
				      "segment-size = 2M\nsize = 2M\n";
	char conf[1024];

	snprintf(conf, sizeof(conf), "%s%s", alone, several);
	kit_start(&kit, conf);
	names_are_apart();
	environment();
	hostile_hellos();
	size_limit();
	huge_pages();
	if (kit_is_root()) {
		door();
		those_who_may();
		those_who_may_not();
		nothing_is_inherited();
	} else {
		skip(1, "several users need root");
	}
	restart();
	if (kit_is_root()) {
		const struct seen *s = as(MEMBER, drop,
			(struct wish) {.pool = "team", .name = "w/t"});

		is_int(-EPERM, s->r, "who could only read still can only");
	} else {
		skip(1, "several users need root");
	}
	reload();
	is_int(0, kit_stop(&kit), "the daemon ends as it should");
	return done();
}
