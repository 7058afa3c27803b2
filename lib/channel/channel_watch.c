/* SPDX-License-Identifier: MIT */
/*
 * Watching a channel without taking part: a watcher takes nothing, delays no
 * participant, and sees the items that can still be seen.
 */
#include <string.h>

#include "base/fail.h"
#include "lib/channel/channel.h"

struct watcher {
	struct ring ring; /* a copy, in private memory */
	uint64_t *cursor;
	struct ring_item item;
};

static int look(void *arg)
{
	struct watcher *w = arg;

	return ring_peek(&w->ring, w->cursor, &w->item);
}

int tarn_channel_watch(tarn_channel *channel, uint64_t *cursor, int timeout_ms,
	struct tarn_channel_seen *ret)
{
	struct watcher w = {.ring = channel->ring, .cursor = cursor};
	const struct ring_note *note = &w.item.note;
	const struct ring_wait wait = {.deadline_ns = wait_until(timeout_ms),
		.signals = true,
		.watcher = true};
	int r;

	w.ring.spin_max = 0; /* it must not burn the participants' time */
	if (!*cursor)
		*cursor = ring_end(&w.ring);
	r = look(&w);
	if (r == 0 && timeout_ms != 0)
		r = ring_wait_for(&w.ring, RING_ITEMS, &wait, look, &w);
	if (r == 0 || r == -ETIMEDOUT)
		return wait_timed_out(
			channel, timeout_ms, "nothing was published");
	if (r < 0)
		return channel_fail(channel, r);
	*ret = (struct tarn_channel_seen) {
		.position = channel_position(channel, w.item.position),
		.bytes = note->bytes,
		.tensors = note->tensors & CHANNEL_NOTE_TENSORS,
		.tag_size = note->tag_size,
	};
	memcpy(ret->tag, note->tag, note->tag_size);
	return 1;
}
