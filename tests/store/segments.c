/* SPDX-License-Identifier: MIT */
/*
 * The segments of a pool, as libraries that register memory see them: what was
 * loaded and published lies in them, later ones have other names, and a callback
 * may look tensors up and end the list.
 */
#include <stdio.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { MOST = 64, TENSORS = 80, BYTES = 1000000 };

static struct daemon server;
static tarn_store *store;

struct list {
	struct tarn_segment all[MOST];
	int n, until; /* until: the callback ends it then; 0: never */
};

static int add(void *arg, const struct tarn_segment *segment)
{
	struct list *list = arg;

	if (list->n == MOST)
		bail("there are more than %d segments", MOST);
	list->all[list->n++] = *segment;
	return list->n == list->until ? 7 : 0;
}

static struct list listed(int until, int wanted, const char *what)
{
	struct list list = {.until = until};

	is_int(wanted, tarn_store_segments(store, add, &list), "%s", what);
	return list;
}

static void publish(int i)
{
	const int64_t shape = BYTES;
	char name[32];
	tarn_tensor *t;

	snprintf(name, sizeof(name), "t/%d", i);
	must(tarn_store_create(store, TARN_U8, 1, &shape, 0, &t));
	memset(tarn_tensor_data(t), i, BYTES);
	must(tarn_store_publish_one(store, name, t, NULL, NULL));
	tarn_tensor_unref(t);
}

static const struct tarn_segment *around(
	const struct list *list, const void *data, size_t size)
{
	for (int i = 0; i < list->n; i++) {
		const struct tarn_segment *s = &list->all[i];
		const char *begin = s->address;

		if ((const char *)data >= begin &&
			(const char *)data + size <= begin + s->size)
			return s;
	}
	return NULL;
}

static bool well_formed(const struct list *list)
{
	bool yes = list->n > 0;

	for (int i = 0; i < list->n; i++) {
		const struct tarn_segment *s = &list->all[i];

		yes = yes && s->address && s->size && s->page_size >= 4096 &&
		      s->size % s->page_size == 0 && s->serial &&
		      s->node >= TARN_NODE_UNKNOWN;
		for (int k = 0; k < i; k++)
			yes = yes && (list->all[k].number != s->number ||
					     list->all[k].serial != s->serial);
	}
	return yes;
}

int main(void)
{
	struct list list, later;
	tarn_tensor *t;
	char name[32];
	int in = 0, n;

	daemon_start(&server, "s", (const char *const[]) {NULL});
	must(tarn_store_open(server.socket, NULL, &store));
	list = listed(0, 0, "a fresh daemon's segments are listed");
	is_int(0, list.n, "there are none");
	publish(0);
	list = listed(0, 0, "those with a tensor");
	ok(well_formed(&list), "each has what it should have");
	must(tarn_store_get(store, "t/0", NULL, &t));
	ok(around(&list, tarn_tensor_data(t), BYTES),
		"the tensor's bytes lie in one");
	for (int i = 1; i < TENSORS; i++)
		publish(i);
	later = listed(0, 0, "those with many tensors");
	ok(later.n > list.n, "there are more");
	n = later.n;
	ok(well_formed(&later), "each has a name of its own");
	ok(around(&list, tarn_tensor_data(t), 1)->address ==
			around(&later, tarn_tensor_data(t), 1)->address,
		"the first is where it was");
	tarn_tensor_unref(t);
	for (int i = 0; i < TENSORS; i++) {
		snprintf(name, sizeof(name), "t/%d", i);
		must(tarn_store_get(store, name, NULL, &t));
		in += around(&later, tarn_tensor_data(t), 1) != NULL;
		tarn_tensor_unref(t);
	}
	is_int(TENSORS, in, "all tensors lie in them");
	later = listed(1, 7, "what the callback returns ends it");
	is_int(1, later.n, "after the first");
	daemon_stop(&server);
	later = listed(
		0, 0, "those that are mapped are listed without a daemon");
	is_int(n, later.n, "as many as before");
	tarn_store_unref(store);
	return done(14);
}
