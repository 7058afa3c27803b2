/* SPDX-License-Identifier: MIT */
/*
 * Requests for copies whose message lies: each is refused with a sentence, and
 * changes nothing. And those that are right, but late: a name that was
 * published anew does not move.
 */
#include <tarn/node.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/load_request.h"
#include "lib/store/message_body.h"
#include "lib/store/store.h"
#include "shm/place.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/replica.h"
#include "tests/kit/tap.h"

#define SIZE 6000

static struct daemon server;
static tarn_store *store;
static tarn_tensor *held; /* as "a" and "b" were published first */
static struct tarn_descriptor of;

static void publish(const char *name, tarn_tensor *t)
{
	const struct tarn_publish_item item = {.name = name, .tensor = t};

	kit_good(tarn_store_publish(store, &item, 1, NULL, NULL), "publish");
}

static tarn_tensor *create(unsigned char byte, unsigned flags)
{
	const int64_t size = SIZE;
	tarn_tensor *t = NULL;

	kit_good(tarn_store_create(store, TARN_U8, 1, &size, flags, &t),
		"create");
	memset(tarn_tensor_data(t), byte, SIZE);
	return t;
}

/* ---- a request, field by field ------------------------------------------- */

struct order {
	struct msg_load head;
	struct msg_copied of;
	struct msg_range range;
	const char *names[3];
	int64_t names_size; /* of each, as the request has it; 0: SIZE */
	bool no_of;         /* and no range */
	size_t cut;         /* bytes that are missing at the end */
	int fd;
};

static struct order order(void)
{
	return (struct order) {
		.head = {.n_ranges = 1, .flags = LOAD_COPY | place_wish(0, 1)},
		.of = {.index = of.storage, .generation = of.generation},
		.range = {.size = SIZE},
		.fd = -1,
	};
}

static void put_names(const struct order *o, struct message_body *b)
{
	const int64_t size = o->names_size ? o->names_size : SIZE;
	struct tarn_layout layout;

	kit_good(tarn_layout_contiguous(TARN_U8, 1, &size, &layout), "layout");
	for (int i = 0; i < 3 && o->names[i]; i++)
		kit_good(message_body_put_name(b, o->names[i],
				 strlen(o->names[i]), 0, 0, &layout),
			"a name");
}

static int send_order(const struct order *o)
{
	struct message_body b = {0};
	struct load_request request = {.total = SIZE, .fds = {o->fd, -1}};
	struct msg_loaded loaded;
	tarn_storage *copy;
	int r;

	message_body_put(&b, &o->head, sizeof(o->head));
	if (!o->no_of) {
		message_body_put(&b, &o->of, sizeof(o->of));
		message_body_put(&b, &o->range, sizeof(o->range));
	}
	put_names(o, &b);
	request.body = b.p;
	request.size = b.size - o->cut;
	request.n_fds = o->fd >= 0;
	r = store_load_request(store, &request, NULL, &loaded, &copy);
	if (r == 0)
		tarn_storage_unref(copy);
	free(b.p);
	return r;
}

static void refused(
	const struct order *o, int error, const char *words, const char *what)
{
	is_int(-error, send_order(o), "a copy is refused: %s", what);
	has_str(words, tarn_error_message(), "%s: the error says it", what);
}

/* ---- lies ------------------------------------------------------------------ */

static void lie_about_fields(void)
{
	struct order o = order();

	o.head.flags = LOAD_COPY;
	refused(&o, EINVAL, "a copy is of one range", "no node is named");
	o = order();
	o.head.flags = LOAD_COPY | place_wish(0, 0);
	refused(&o, EINVAL, "a copy is of one range", "a node is only near");
	o = order();
	o.head.flags = LOAD_MOVE | place_wish(0, 1);
	refused(&o, EINVAL, "beyond the limits",
		"names that move, and no copy");
	o.head.n_ranges = 0;
	o.no_of = true;
	refused(&o, EINVAL, "beyond the limits",
		"a move that ends before its copy");
	o = order();
	o.head.flags |= LOAD_FRESH;
	refused(&o, EINVAL, "a copy is of one range", "a fresh copy");
	o = order();
	o.head.flags |= LOAD_MOVE;
	refused(&o, EINVAL, "a copy is of one range", "no name moves");
	o = order();
	o.head.n_names = 1;
	o.names[0] = "c";
	refused(&o, EINVAL, "a copy is of one range", "a replica with a name");
	o = order();
	o.cut = sizeof(o.range) + 1;
	refused(&o, EPROTO, "ends in a copy", "a message that is too short");
	o = order();
	o.fd = memfd_create("a file", MFD_CLOEXEC);
	refused(&o, EINVAL, "without a descriptor", "a file beside it");
	close(o.fd);
}

static void lie_about_storage(void)
{
	struct order o = order();
	struct tarn_descriptor d;
	tarn_tensor *t = create(9, TARN_CREATE_MUTABLE);

	o.of.generation++;
	refused(&o, ESTALE, "not one that this connection holds",
		"a generation that is to come");
	o = order();
	o.of.index = 4000000000u;
	refused(&o, ESTALE, "not one that this connection holds",
		"a storage beyond all");
	o = order();
	o.range.size = SIZE + 1;
	refused(&o, EINVAL, "has 6000 bytes, not 6001", "a byte too many");
	o = order();
	o.range.size = SIZE - 1;
	refused(&o, EINVAL, "has 6000 bytes, not 5999", "a byte too few");
	publish("mutable", t);
	kit_good(tarn_store_export(store, t, &d), "export");
	o = order();
	o.of.index = d.storage;
	o.of.generation = d.generation;
	refused(&o, EINVAL, "is mutable", "a mutable tensor");
	tarn_tensor_unref(t);
	kit_good(tarn_store_remove(store, "mutable"), "remove");
}

/* ---- too late -------------------------------------------------------------- */

static unsigned char byte_of(const char *name, uint64_t *ret_version)
{
	unsigned char byte;
	tarn_tensor *t = NULL;

	kit_good(tarn_store_lookup(store, name, &t), name);
	kit_good(tarn_store_version(store, name, ret_version), name);
	byte = *(unsigned char *)tarn_tensor_data(t);
	tarn_tensor_unref(t);
	return byte;
}

static void late(void)
{
	struct order o = order();
	uint64_t version = 0;
	tarn_tensor *new = create(2, 0);

	publish("a", new);
	new = tarn_tensor_unref(new);
	o.names_size = 10;
	o.head.flags |= LOAD_MOVE;
	o.head.n_names = 3;
	o.names[0] = "a";
	o.names[1] = "b";
	o.names[2] = "c";
	is_int(0, send_order(&o),
		"names move although one was published anew, and one is none");
	is_int(2, byte_of("a", &version), "what was published anew stays");
	is_int(2, (int64_t)version, "its version, too");
	kit_good(tarn_store_lookup(store, "b", &new), "b");
	is_int(SIZE, tarn_tensor_layout(new)->shape[0],
		"its layout is as it was published");
	new = tarn_tensor_unref(new);
	is_int(1, byte_of("b", &version), "the other has its bytes");
	is_int(2, (int64_t)version, "it has moved");
	is_int(-ENOENT, tarn_store_version(store, "c", &version),
		"a name that was none is none");
	refused(&o, ESTALE, "no name leads to storage",
		"all names lead elsewhere");
	o = order();
	refused(&o, ESTALE, "no name leads to storage",
		"a replica of what nothing leads to");
}

int main(void)
{
	store = daemon_start_open(
		&server, "sock", (const char *const[]) {NULL});
	held = create(1, 0);
	publish("a", held);
	tarn_tensor_unref(held);
	kit_good(tarn_store_lookup(store, "a", &held), "a");
	publish("b", held);
	kit_good(tarn_store_export(store, held, &of), "export");
	lie_about_fields();
	lie_about_storage();
	ok(kit_is_sound(store), "the daemon's books agree");
	late();
	ok(kit_is_sound(store), "the daemon's books agree");
	tarn_tensor_unref(held);
	tarn_store_unref(store);
	daemon_stop(&server);
	return done(41);
}
