/* SPDX-License-Identifier: MIT */
/*
 * A pool's clients outlive its server and its configuration: the next server
 * finds them where they were, and a configuration that is read again adds
 * pools, changes their sizes, and changes nothing where it makes no sense.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/kit/pool_deeds.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

static struct pool_kit kit;

/* What the daemon says of it. */
static void size_of(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct wish *wish = arg;
	struct tarn_report *report = NULL;
	tarn_store *store = NULL;
	int r = wish_open(k, wish, &store);

	if (r >= 0)
		r = tarn_store_report(store, &report);
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
	return kit_pool_as(&kit, geteuid(), fn, &wish);
}

static void load(void)
{
	const char *file = kit_pool_file(&kit, "before", 100000, 7, 0);
	const struct seen *s = me(deed_load,
		(struct wish) {.pool = "mine", .file = file, .name = "m"});

	is_int(0, s->r, "a file is loaded into a pool");
}

static void restart(void)
{
	const char *file = kit_pool_file(&kit, "late", 5000, 6, 0);
	struct wish wish = {.pool = "mine", .file = file, .name = "over"};
	const struct seen *s = me(deed_take_over, wish);

	ok(s->r == 0 && s->n == 1,
		"a client of a pool continues after the server's death");
	s = me(deed_look, (struct wish) {.pool = "mine", .name = "over/t"});
	ok(s->r == 0 && s->bytes[0] == 6,
		"a file loaded after the death is found");
	s = me(deed_look, (struct wish) {.pool = "", .name = "over/t"});
	is_int(-ENOENT, s->r,
		"a tensor of the pool is not in the user's own memory");
	s = me(deed_look, (struct wish) {.pool = "mine", .name = "m/t"});
	is_int(0, s->r, "a file loaded before the death is found");
}

static void reload(void)
{
	const struct seen *s;

	s = me(deed_look, (struct wish) {.pool = "late"});
	is_int(-EACCES, s->r,
		"a pool that is not configured yet does not exist");
	kit_pool_configure(
		&kit, "[pool mine]\n[pool late]\n[pool second]\nmode = 0644\n");
	kill(kit.daemon.pid, SIGHUP);
	ok(kit_pool_logs(&kit, "reload_kept"),
		"settings that need a restart are logged");
	ok(kit_pool_logs(&kit, "reload role=keeper"),
		"the configuration is read again");
	for (int i = 0; i < 3000; i++) {
		s = me(deed_look, (struct wish) {.pool = "late"});
		if (s->r == 0)
			break;
		usleep(20000);
	}
	is_int(0, s->r, "the new pool exists after the reload");
	kit_pool_configure(
		&kit, "[pool mine]\n[pool late]\nsize = 64M\n[pool second]\n");
	kill(kit.daemon.pid, SIGHUP);
	for (int i = 0; i < 3000; i++) {
		s = me(size_of, (struct wish) {.pool = "late"});
		if (s->n == 64 << 20)
			break;
		usleep(20000);
	}
	is_int(64 << 20, (int64_t)s->n,
		"the size of the new pool can be changed");
	kit_pool_configure(&kit, "[pool late]\nmode = 777\n");
	kill(kit.daemon.pid, SIGHUP);
	ok(kit_pool_logs(&kit, "conf:2: mode must be"),
		"an error in the configuration is logged");
	s = me(deed_look, (struct wish) {.pool = "mine", .name = "m/t"});
	is_int(0, s->r, "a reload with an error changes nothing");
}

/* ---- a server that cannot take it --------------------------------------- */

static pid_t server_pid(void)
{
	struct tarn_report_daemon status = {0};
	tarn_store *store;

	if (tarn_store_open(kit.daemon.socket, NULL, &store) < 0 ||
		report_daemon(store, &status) < 0)
		bail("status: %s", tarn_error_message());
	tarn_store_unref(store);
	return (pid_t)status.server_pid;
}

/* Addresses for what it does all the time, and not for one region more. */
static struct rlimit limit_addresses(pid_t pid)
{
	struct rlimit before, low;
	unsigned long pages = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%lu", &pages) != 1)
		bail("%s: %m", path);
	fclose(f);
	if (prlimit(pid, RLIMIT_AS, NULL, &before) < 0)
		bail("prlimit: %m");
	low = (struct rlimit) {
		pages * (rlim_t)sysconf(_SC_PAGESIZE) + (256u << 20),
		before.rlim_max};
	if (prlimit(pid, RLIMIT_AS, &low, NULL) < 0)
		bail("prlimit: %m");
	return before;
}

static void reload_starved(void)
{
	pid_t server = server_pid();
	struct rlimit before = limit_addresses(server);
	const struct seen *s;

	kit_pool_configure(&kit, "[pool mine]\n[pool hungry]\n");
	kill(kit.daemon.pid, SIGHUP);
	ok(kit_pool_logs(&kit, "control region: mapping"),
		"a server that cannot map a new pool's region logs it");
	s = me(deed_look, (struct wish) {.pool = "hungry"});
	is_int(-EACCES, s->r,
		"a pool whose region cannot be mapped does not exist");
	s = me(deed_look, (struct wish) {.pool = "mine", .name = "m/t"});
	is_int(0, s->r, "another pool is served meanwhile");
	if (prlimit(server, RLIMIT_AS, &before, NULL) < 0)
		bail("prlimit: %m");
	s = me(deed_look, (struct wish) {.pool = "hungry"});
	is_int(0, s->r,
		"the next client finds the pool once the server can map it: %s",
		s->text);
	is_int(server, server_pid(), "the pool is served by the same server");
}

int main(void)
{
	kit_pool_start(&kit, "[daemon]\nidle = 1\n"
			     "[pool mine]\n[pool second]\n");
	load();
	restart();
	reload();
	reload_starved();
	is_int(0, kit_pool_stop(&kit), "the daemon ends without an error");
	return done(18);
}
