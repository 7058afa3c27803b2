/* SPDX-License-Identifier: MIT */
/*
 * producer NAME N: N images into a channel, each made where its consumers will
 * read it. Any number of consumers may run (consumer.c); where these are
 * slower, it waits for them. It closes the channel behind its last image: where
 * several produce, that is for the last of them to do.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/tarn.h>

static void draw(tarn_tensor *image, int seed)
{
	unsigned char *p = tarn_tensor_data(image);

	for (int i = 0; i < 3 * 224 * 224; i++)
		p[i] = (unsigned char)(i + seed);
}

int main(int argc, char **argv)
{
	const struct tarn_channel_options options = {.slots = 4};
	const int64_t shape[] = {3, 224, 224};
	tarn_store *store = NULL;
	tarn_channel *channel = NULL;
	int r, n = argc == 3 ? atoi(argv[2]) : 0;

	if (n < 1 || argv[1][0] == '-') {
		fprintf(stderr, "usage: producer CHANNEL IMAGES, of which "
				"there is at least 1\n");
		return 2;
	}
	r = tarn_store_open(NULL, NULL, &store);
	if (r >= 0)
		r = tarn_channel_open(store, argv[1], &options, &channel);
	for (int i = 0; r >= 0 && i < n; i++) {
		tarn_slot *slot = NULL;
		tarn_tensor *image = NULL;

		r = tarn_channel_acquire(channel, -1, &slot);
		if (r >= 0)
			r = tarn_slot_new_tensor(
				slot, TARN_U8, 3, shape, &image);
		if (r >= 0) {
			draw(image, i);
			r = tarn_slot_publish(slot);
		}
		tarn_tensor_unref(image);
	}
	if (r >= 0) /* behind the last image comes the end */
		r = tarn_channel_close(channel);
	if (r < 0)
		fprintf(stderr, "producer: %s\n", tarn_error_message());

	tarn_channel_unref(channel);
	tarn_store_unref(store);
	return r < 0;
}
