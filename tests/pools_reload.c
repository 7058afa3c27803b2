/* SPDX-License-Identifier: MIT */
/*
 * A pool's clients outlive its server and its configuration: the next server
 * finds them where they were, and a configuration that is read again adds
 * pools, changes their sizes, and changes nothing where it makes no sense.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/pool_deeds.h"
#include "tests/tap.h"

static struct pool_kit kit;

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

static const struct seen *me(
	void (*fn)(const struct pool_kit *k, struct seen *seen, void *arg),
	struct wish wish)
{
	return kit_as(&kit, geteuid(), fn, &wish);
}

static void load(void)
{
	const char *file = kit_file(&kit, "before", 100000, 7, 0);
	const struct seen *s = me(deed_load,
		(struct wish) {.pool = "mine", .file = file, .name = "m"});

	is_int(0, s->r, "a file is loaded into a pool");
}

static void restart(void)
{
	const char *file = kit_file(&kit, "late", 5000, 6, 0);
	struct wish wish = {.pool = "mine", .file = file, .name = "over"};
	const struct seen *s = me(deed_take_over, wish);

	ok(s->r == 0 && s->n == 1, "a client of a pool goes on");
	s = me(deed_look, (struct wish) {.pool = "mine", .name = "over/t"});
	ok(s->r == 0 && s->bytes[0] == 6, "what it loads is there");
	s = me(deed_look, (struct wish) {.pool = "", .name = "over/t"});
	is_int(-ENOENT, s->r, "and nowhere else");
	s = me(deed_look, (struct wish) {.pool = "mine", .name = "m/t"});
	is_int(0, s->r, "as is what was there before");
}

static void reload(void)
{
	const struct seen *s;

	s = me(deed_look, (struct wish) {.pool = "late"});
	is_int(-EACCES, s->r, "a pool that is not listed yet is not there");
	kit_configure(
		&kit, "[pool mine]\n[pool late]\n[pool second]\nmode = 0644\n");
	kill(kit.daemon.pid, SIGHUP);
	ok(kit_logs(&kit, "reload_kept"), "what cannot change now is said");
	ok(kit_logs(&kit, "reload role=keeper"), "the configuration is read");
	for (int i = 0; i < 1000; i++) {
		s = me(deed_look, (struct wish) {.pool = "late"});
		if (s->r == 0)
			break;
		usleep(20000);
	}
	is_int(0, s->r, "the new pool is there");
	kit_configure(
		&kit, "[pool mine]\n[pool late]\nsize = 64M\n[pool second]\n");
	kill(kit.daemon.pid, SIGHUP);
	for (int i = 0; i < 1000; i++) {
		s = me(size_of, (struct wish) {.pool = "late"});
		if (s->n == 64 << 20)
			break;
		usleep(20000);
	}
	is_int(64 << 20, (int64_t)s->n, "and its size can be changed");
	kit_configure(&kit, "[pool late]\nmode = 777\n");
	kill(kit.daemon.pid, SIGHUP);
	ok(kit_logs(&kit, "conf:2: mode must be"), "an error is said");
	s = me(deed_look, (struct wish) {.pool = "mine", .name = "m/t"});
	is_int(0, s->r, "and changes nothing");
}

int main(void)
{
	kit_start(&kit, "[daemon]\nidle = 1\n"
			"[pool mine]\n[pool second]\n");
	load();
	restart();
	reload();
	is_int(0, kit_stop(&kit), "the daemon ends as it should");
	return done();
}
