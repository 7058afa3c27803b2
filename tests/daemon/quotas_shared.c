/* SPDX-License-Identifier: MIT */
/*
 * Quotas of two users in one pool that both may write: each is charged for
 * what it does, and nothing that one does fills the other's account; servers
 * that take over agree.
 *
 * The users are children of root's.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/kit/command_child.h"
#include "tests/kit/pool.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define SMALL 64

static const char pool[] = "[pool both]\n"
			   "owner = 61001\n"
			   "group = 62001\n"
			   "mode = 0660\n"
			   "[quota]\n";

static struct pool_kit kit;

static void begin(const char *quota)
{
	char conf[256];

	kit = (struct pool_kit) {0};
	snprintf(conf, sizeof(conf), "%s%s\n", pool, quota);
	kit_pool_start(&kit, conf);
}

static tarn_store *opened(void)
{
	tarn_store *store = NULL;

	if (tarn_store_open(kit.daemon.socket,
		    &(const struct tarn_store_options) {.pool = "both"},
		    &store) < 0)
		bail("the pool: %s", tarn_error_message());
	return store;
}

/* Nothing is wrong with the books of any user. */
static void books_agree(void)
{
	struct tarn_check *check = NULL;
	tarn_store *store = opened();
	int r = tarn_store_check(store, &check);

	if (!ok(r == 0 && !check->n_faults,
		    "tarn check finds no fault in the accounts"))
		diag("%s", r < 0 ? tarn_error_message() : check->faults[0]);
	tarn_check_free(check);
	tarn_store_unref(store);
}

static void end(const char *what)
{
	books_agree();
	is_int(0, kit_pool_stop(&kit),
		"the daemon with a quota of %s ends without an error", what);
}

static void restart_server(void)
{
	struct tarn_report_daemon before, after = {0};
	tarn_store *store = opened();

	if (report_daemon(store, &before) < 0)
		bail("status: %s", tarn_error_message());
	kill(before.server_pid, SIGKILL);
	if (report_daemon(store, &after) < 0)
		bail("status: %s", tarn_error_message());
	ok(after.server_pid != before.server_pid, "another server takes over");
	tarn_store_unref(store);
}

/* ---- what users do ------------------------------------------------------- */

struct deed {
	const char *name;
	int n;            /* names: NAME/0, NAME/1, ... */
	const char *onto; /* a tensor that is there; NULL: a new one */
	const char *file; /* to be loaded as NAME */
};

static int publish_all(tarn_store *store, const struct deed *deed)
{
	const int64_t shape[] = {SMALL};
	struct tarn_publish_item items[16];
	char names[16][32];
	tarn_tensor *t = NULL;
	int r;

	r = deed->onto ? tarn_store_lookup(store, deed->onto, &t)
		       : tarn_store_create(store, TARN_U8, 1, shape, 0, &t);
	for (int i = 0; i < deed->n && r >= 0; i++) {
		snprintf(names[i], sizeof(names[i]), "%s/%d", deed->name, i);
		items[i] = (struct tarn_publish_item) {
			.name = names[i], .tensor = t};
	}
	if (r >= 0)
		r = tarn_store_publish(
			store, items, (size_t)deed->n, NULL, NULL);
	tarn_tensor_unref(t);
	return r;
}

static void publish(const struct pool_kit *k, struct seen *seen, void *arg)
{
	tarn_store *store = opened();

	(void)k;
	seen_error(seen, publish_all(store, arg));
	tarn_store_unref(store);
}

static void load(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct deed *deed = arg;
	const struct tarn_load_options options = {.name = deed->name};
	tarn_store *store = opened();
	tarn_file *file = NULL;
	int r = tarn_file_open(deed->file, &file);

	(void)k;
	if (r >= 0)
		r = tarn_store_load(store, file, &options, NULL, NULL);
	seen_error(seen, r);
	tarn_file_unref(file);
	tarn_store_unref(store);
}

static void drop(const struct pool_kit *k, struct seen *seen, void *arg)
{
	const struct deed *deed = arg;
	tarn_store *store = opened();

	(void)k;
	seen_error(seen, tarn_store_remove(store, deed->name));
	tarn_store_unref(store);
}

static int as(uint32_t uid,
	void (*fn)(const struct pool_kit *k, struct seen *seen, void *arg),
	struct deed deed)
{
	return kit_pool_as(&kit, uid, fn, &deed)->r;
}

/* ---- names --------------------------------------------------------------- */

static void names(void)
{
	begin("names = 10");
	is_int(0, as(OWNER, publish, (struct deed) {"a", 2, NULL, NULL}),
		"the owner publishes two names");
	is_int(0, as(MEMBER, publish, (struct deed) {"b", 10, "a/0", NULL}),
		"the member publishes ten names, also of the owner's tensor");
	is_int(-EDQUOT,
		as(MEMBER, publish, (struct deed) {"c", 1, "a/0", NULL}),
		"an eleventh name of the member is refused");
	is_int(0, as(OWNER, publish, (struct deed) {"d", 8, NULL, NULL}),
		"the member's names are not charged to the owner");
	is_int(-EDQUOT, as(OWNER, publish, (struct deed) {"e", 1, NULL, NULL}),
		"the owner may have ten names, too");
	restart_server();
	books_agree();
	is_int(-EDQUOT,
		as(MEMBER, publish, (struct deed) {"c", 1, "a/0", NULL}),
		"the next server knows the member's names");
	is_int(-EDQUOT, as(OWNER, publish, (struct deed) {"e", 1, NULL, NULL}),
		"the next server knows the owner's names");
	is_int(0, as(MEMBER, publish, (struct deed) {"b", 10, "d/0", NULL}),
		"publishing existing names needs no quota");
	is_int(-EDQUOT, as(MEMBER, publish, (struct deed) {"d", 1, NULL, NULL}),
		"replacing another user's name needs quota");
	is_int(0, as(MEMBER, drop, (struct deed) {"b/9", 0, NULL, NULL}),
		"the member removes one name");
	is_int(0, as(MEMBER, publish, (struct deed) {"d", 1, NULL, NULL}),
		"the member may then replace another user's name");
	is_int(0, as(OWNER, publish, (struct deed) {"e", 1, NULL, NULL}),
		"the owner then has room for one name");
	end("names");
}

/* The bytes of a file are one storage, whoever publishes names onto it. */
static void loaded(void)
{
	const char *file;

	begin("names = 2");
	file = kit_pool_file(&kit, "file", 5000, 7, 0);
	is_int(0, as(OWNER, load, (struct deed) {"a", 0, NULL, file}),
		"the owner loads a file with a name");
	is_int(0, as(MEMBER, load, (struct deed) {"b", 0, NULL, file}),
		"the member loads the same file with a name");
	is_int(0, as(MEMBER, load, (struct deed) {"c", 0, NULL, file}),
		"the member loads it under a second name");
	is_int(-EDQUOT, as(MEMBER, load, (struct deed) {"d", 0, NULL, file}),
		"a third name of the member is refused");
	is_int(0, as(OWNER, load, (struct deed) {"d", 0, NULL, file}),
		"the owner may still have a third name");
	end("names, of a file");
}

/* ---- who holds what was removed ------------------------------------------ */

#define MIB (1 << 20)
#define LARGE (4 * MIB) /* of which two and a half are a quota */

static int publish_large(tarn_store *store, const char *name)
{
	const int64_t shape[] = {LARGE};
	struct tarn_publish_item item = {.name = name};
	int r;

	r = tarn_store_create(store, TARN_U8, 1, shape, 0, &item.tensor);
	if (r >= 0)
		r = tarn_store_publish(store, &item, 1, NULL, NULL);
	tarn_tensor_unref(item.tensor);
	return r;
}

/* Where it stays: nobody receives it. */
static int send(tarn_store *store, tarn_tensor *t)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096};
	tarn_channel *channel = NULL;
	tarn_slot *slot = NULL;
	int r = tarn_channel_open(store, "c", &options, &channel);

	if (r >= 0)
		r = tarn_channel_acquire(channel, 1000, &slot);
	if (r >= 0)
		r = tarn_slot_add(slot, t);
	if (r >= 0)
		r = tarn_slot_publish(STEAL(slot));
	tarn_slot_abandon(slot);
	tarn_channel_unref(channel);
	return r;
}

/* A process of a user, which does what it is asked. */
static void be_holder(int ask, int answer)
{
	tarn_tensor *held[8] = {NULL};
	tarn_store *store = opened();
	struct tarn_publish_item item = {.name = "kept"};
	int n = 0, r;
	char what;

	while (read(ask, &what, 1) == 1) {
		switch (what) {
		case 'h': /* holds what is there */
			r = tarn_store_lookup(store, "w", &held[n]);
			n += r >= 0;
			break;
		case 'd': /* drops it all */
			while (n > 0)
				tarn_tensor_unref(held[--n]);
			r = 0;
			break;
		case 'k': /* gives the first a name again */
			item.tensor = held[0];
			r = tarn_store_publish(store, &item, 1, NULL, NULL);
			break;
		case 's': /* sends the first into its own channel */
			r = send(store, held[0]);
			break;
		default:
			r = publish_large(store, "mine");
		}
		if (r < 0)
			diag("%c: %s", what, tarn_error_message());
		if (write(answer, &r, sizeof(r)) != sizeof(r))
			break;
	}
}

static struct command_child holder_begin(uint32_t uid)
{
	struct command_child holder = command_child_prepare();

	command_child_forked(&holder, kit_pool_fork(uid), be_holder);
	return holder;
}

static void holder_end(const struct command_child *holder)
{
	command_child_leave(holder);
	waitpid(holder->pid, NULL, 0);
}

/* A user that holds removed memory is charged for it as soon as the daemon has
 * looked who holds it. Until then the user may publish more under one name. */
static int more_in_the_end(const struct command_child *holder)
{
	int r = 0;

	for (int ms = 0; ms < 60000 && r == 0; ms += 10) {
		r = command_child_ask(holder, 'm');
		usleep(10000);
	}
	return r;
}

static void version(const struct pool_kit *k, struct seen *seen, void *arg)
{
	tarn_store *store = opened();

	(void)k;
	(void)arg;
	seen_error(seen, publish_large(store, "w"));
	tarn_store_unref(store);
}

static int next_version(void)
{
	return as(OWNER, version, (struct deed) {NULL, 0, NULL, NULL});
}

static void held(void)
{
	struct command_child reader;

	begin("bytes = 10M");
	reader = holder_begin(MEMBER);
	for (int i = 0; i < 2; i++) {
		is_int(0, next_version(), "the owner publishes a version");
		is_int(0, command_child_ask(&reader, 'h'),
			"the member holds the version");
	}
	is_int(0, next_version(),
		"the owner's third version is not refused for held ones");
	books_agree();
	is_int(-EDQUOT, more_in_the_end(&reader),
		"held versions are charged to the member, who may have no "
		"more");
	restart_server();
	books_agree();
	is_int(-EDQUOT, more_in_the_end(&reader),
		"held versions are charged under the next server, too");
	is_int(0, next_version(), "the owner publishes further versions");
	is_int(0, command_child_ask(&reader, 'd'),
		"the member drops the versions");
	is_int(0, command_child_ask(&reader, 'm'),
		"the member may then publish something else");
	is_int(0, command_child_ask(&reader, 'h'),
		"the member may also hold more");
	is_int(0, next_version(), "the held version is replaced");
	is_int(0, command_child_ask(&reader, 'h'),
		"the member holds a further version");
	is_int(0, next_version(),
		"the owner replaces what the member holds beyond its quota");
	is_int(-EDQUOT, more_in_the_end(&reader),
		"the member is refused when it next publishes");
	holder_end(&reader);
	end("bytes, of which some are held");
}

/* The owner is one of the holders as long as its process lives. */
static void held_by_both(void)
{
	struct command_child owner, reader;

	begin("bytes = 10M");
	is_int(0, next_version(), "the owner publishes a version");
	owner = holder_begin(OWNER);
	is_int(0, command_child_ask(&owner, 'h'),
		"the owner holds its version");
	reader = holder_begin(MEMBER);
	is_int(0, command_child_ask(&reader, 'h'),
		"the member holds the version, too");
	is_int(0, next_version(), "the held version is replaced");
	is_int(0, command_child_ask(&reader, 'm'),
		"the version is charged to the owner, not to the member");
	is_int(-EDQUOT, command_child_ask(&owner, 'm'),
		"the owner is refused beyond two versions");
	books_agree();
	kill(owner.pid, SIGKILL);
	holder_end(&owner);
	books_agree();
	is_int(0, next_version(), "a killed owner is charged no more");
	is_int(-EDQUOT, command_child_ask(&reader, 'm'),
		"the version is then charged to the member");
	is_int(0, command_child_ask(&reader, 'k'),
		"the owner gives the held version a name again");
	is_int(-EDQUOT, command_child_ask(&reader, 'm'),
		"the named version does not relieve the member");
	restart_server();
	is_int(-EDQUOT, command_child_ask(&reader, 'm'),
		"the version stays charged to the member");
	is_int(0, next_version(), "the version is not charged to its creator");
	holder_end(&reader);
	end("bytes, held by two");
}

static int evictions(void)
{
	struct tarn_report *report = NULL;
	tarn_store *store = opened();
	int n = -1;

	if (tarn_store_report(store, &report) >= 0)
		n = (int)report->daemon.evictions;
	tarn_report_free(report);
	tarn_store_unref(store);
	return n;
}

/* What could not make enough room stays. */
static void held_and_kept(void)
{
	struct command_child reader;
	const char *file;

	begin("bytes = 10M");
	file = kit_pool_file(&kit, "file", MIB, 7, 0);
	is_int(0, as(MEMBER, load, (struct deed) {"b", 0, NULL, file}),
		"the member loads a file");
	is_int(0, as(MEMBER, drop, (struct deed) {"b/t", 0, NULL, NULL}),
		"the file is cached without a name");
	reader = holder_begin(MEMBER);
	for (int i = 0; i < 4; i++) {
		next_version();
		is_int(0, command_child_ask(&reader, 'h'),
			"the member holds a version");
	}
	is_int(0, next_version(), "the held versions are replaced");
	is_int(-EDQUOT, more_in_the_end(&reader),
		"the member holds more than its quota");
	is_int(0, evictions(),
		"the member's cached file is not evicted in vain");
	is_int(0, command_child_ask(&reader, 'd'),
		"the member drops the versions");
	is_int(0, command_child_ask(&reader, 'm'),
		"the member may then publish something else");
	is_int(0, evictions(), "the member's cached file is not evicted");
	holder_end(&reader);
	end("bytes, of which some are kept");
}

static void held_by_item(void)
{
	struct command_child sender;

	begin("bytes = 11M");
	is_int(0, next_version(), "the owner publishes a version");
	sender = holder_begin(MEMBER);
	is_int(0, command_child_ask(&sender, 'h'),
		"the member opens the version");
	is_int(0, command_child_ask(&sender, 's'),
		"the member sends the version through a channel");
	is_int(0, command_child_ask(&sender, 'd'),
		"the member drops the version");
	is_int(0, next_version(), "the sent version is replaced");
	is_int(0, next_version(),
		"the sent version is not charged to its creator");
	is_int(0, command_child_ask(&sender, 'm'),
		"the sent version is charged to the channel's owner");
	is_int(-EDQUOT, command_child_ask(&sender, 'm'),
		"the sent version stays charged while the item has it");
	holder_end(&sender);
	end("bytes, held by an item");
}

int main(void)
{
	if (!kit_pool_is_root())
		skip_all("only root can become other users");
	names();
	loaded();
	held();
	held_by_both();
	held_and_kept();
	held_by_item();
	return done(84);
}
