/* SPDX-License-Identifier: MIT */
/*
 * consumer NAME: reads the images of a channel (producer.c) where they lie,
 * until its end. If it is killed, what it had in hand goes to another.
 */
#include <errno.h>
#include <stdio.h>

#include <tarn/tarn.h>

static int look(tarn_item *item)
{
	tarn_tensor *image = NULL;
	int64_t sum = 0;
	int r = tarn_item_tensor(item, 0, &image);

	for (int i = 0; r >= 0 && i < 3 * 224 * 224; i++)
		sum += ((const unsigned char *)tarn_tensor_data(image))[i];
	if (r >= 0)
		printf("image %d: mean %.3f\n", (int)tarn_item_position(item),
			(double)sum / (3 * 224 * 224));
	tarn_tensor_unref(image);
	return r;
}

int main(int argc, char **argv)
{
	const struct tarn_channel_options options = {.slots = 4};
	tarn_store *store = NULL;
	tarn_channel *channel = NULL;
	const char *name;
	int r;

	if (argc != 2 || argv[1][0] == '-') {
		fprintf(stderr, "usage: consumer CHANNEL\n");
		return 2;
	}
	name = argv[1];
	r = tarn_store_open(NULL, NULL, &store);
	if (r >= 0) /* one that was closed may have images left */
		r = tarn_channel_open(store, name, NULL, &channel);
	if (r == -ENOENT) /* the first participant creates it */
		r = tarn_channel_open(store, name, &options, &channel);
	if (r >= 0)
		fprintf(stderr, "consumer: waiting for images\n");
	while (r >= 0) {
		tarn_item *item = NULL;

		r = tarn_channel_receive(channel, -1, &item);
		if (r >= 0)
			r = look(item);
		tarn_item_unref(item); /* its slot may be filled again */
	}
	if (r != -EPIPE)
		fprintf(stderr, "consumer: %s\n", tarn_error_message());

	tarn_channel_unref(channel);
	tarn_store_unref(store);
	return r != -EPIPE;
}
