/* SPDX-License-Identifier: MIT */
/*
 * A tensor in memory of a device is sent without its bytes: the receiver gets
 * the same memory, and the item keeps it when its name is gone.
 */
#include <errno.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/device.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

enum { SIZE = 100000 };

static uint64_t kept(tarn_store *store)
{
	struct tarn_report_daemon d = {0};

	must(report_daemon(store, &d));
	return d.device_memory;
}

static bool is_gone(void *arg)
{
	return kept(arg) == 0;
}

int main(void)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096, .tensors = 1};
	tarn_store *sends, *receives;
	tarn_channel *in, *out;
	struct daemon daemon;
	tarn_tensor *t, *seen;
	tarn_slot *slot;
	tarn_item *item;

	kit_device_begin();
	daemon_start(&daemon, "device.sock", NULL);
	sends = kit_channel_store(daemon.socket);
	receives = kit_channel_store(daemon.socket);
	in = kit_channel_open(sends, "c", &options);
	out = kit_channel_open(receives, "c", NULL);
	t = kit_device_tensor(SIZE, 7);
	slot = kit_channel_acquire(in);
	is_int(-ENOTSUP, tarn_slot_add(slot, t),
		"memory of a device is not sent before it is published");
	must(tarn_store_publish_one(sends, "d", t, NULL, NULL));
	is_int(0, tarn_slot_add(slot, t),
		"published memory of a device is sent");
	must(tarn_slot_publish(slot));
	must(tarn_store_remove(sends, "d"));
	tarn_tensor_unref(t);
	usleep(20000);
	is_int(SIZE, (int64_t)kept(sends), "the item keeps it without a name");
	item = kit_channel_receive(out);
	seen = kit_channel_tensor(item, 0);
	is_int(TARN_STORAGE_DEVICE,
		tarn_storage_kind(tarn_tensor_storage(seen)),
		"the receiver's tensor is on the device");
	ok(kit_device_has(seen, 7), "the receiver has the same bytes");
	tarn_item_unref(item);
	ok(kit_device_has(seen, 7), "they stay when the item is given back");
	tarn_tensor_unref(seen);
	ok(kit_channel_comes_true(is_gone, sends),
		"the memory goes with the receiver's tensor");
	is_int(0, atomic_load(&kit_device_live), "no import is left");
	tarn_channel_unref(in);
	tarn_channel_unref(out);
	tarn_store_unref(sends);
	tarn_store_unref(receives);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	return done(9);
}
