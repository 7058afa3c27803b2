#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Images from workers to a trainer, through a channel.

    pipeline.py [IMAGES.npy [BATCHES [WORKERS]]]

The images (u8 [n, height, width]; made up where no file is named) are in
memory once, for all workers. A worker picks some, scales them to floats, adds
noise, and does all that in a slot of the channel: the trainer reads the batch
where it was made. It learns to take the noise away again. Whoever is faster
waits for the other; a worker that dies gives its slot back.
"""
import multiprocessing
import sys

import numpy
import tarn

BATCH, NOISE = 128, 0.3
IMAGES, BATCHES = "pipeline/images", "pipeline/batches"


def make_up(count=2000, side=16):
    """Round spots of light, somewhere."""
    random = numpy.random.default_rng(0)
    y, x = numpy.mgrid[:side, :side]
    at = random.uniform(6, side - 6, (2, count, 1, 1))
    return (255 * numpy.exp(-((y - at[0]) ** 2 + (x - at[1]) ** 2) / 20)
            ).astype(numpy.uint8)


def work(number, count):
    """A worker: makes so many batches."""
    store = tarn.default_store()
    images = store[IMAGES].numpy()
    channel = store.channel(BATCHES, create=False)
    random = numpy.random.default_rng(number)
    for _ in range(count):
        with channel.acquire() as slot:  # leaving the block publishes it
            shape = (BATCH, images[0].size)
            noisy = numpy.asarray(slot.empty(shape, "F32"))
            clean = numpy.asarray(slot.empty(shape, "F32"))
            chosen = images[random.integers(len(images), size=BATCH)]
            numpy.multiply(chosen.reshape(shape), 1 / 255, out=clean)
            random.standard_normal(dtype=noisy.dtype, out=noisy)
            noisy *= NOISE
            noisy += clean


def train(channel, pixels, count):
    """A linear denoiser, by steps against the mean of each batch."""
    weight = numpy.zeros((pixels, pixels), numpy.float32)
    for step in range(1, count + 1):
        with channel.receive(timeout=60) as item:
            noisy, clean = item[0].numpy(), item[1].numpy()
            error = noisy @ weight - clean
            weight -= 0.05 * noisy.T @ error / len(noisy)
        if step in (1, count):
            print(f"step {step}: {numpy.square(error).mean():.4f} off",
                  flush=True)


def main():
    arguments = sys.argv[1:4] + [None, "200", "2"][len(sys.argv) - 1:]
    path, count, workers = arguments[0], *map(int, arguments[1:])
    store = tarn.default_store()
    images = next(iter(tarn.load(path).values())) if path else make_up()
    store.publish(IMAGES, images)
    pixels = images.shape[1] * images.shape[2]
    channel = store.channel(BATCHES, slots=2 * workers + 1, ephemeral=True,
                            slot_bytes=2 * BATCH * (pixels * 4 + 64))
    channel.join("consumer")
    started = [multiprocessing.Process(
        target=work, args=(n, count // workers + (n < count % workers)))
        for n in range(workers)]
    for process in started:
        process.start()
    train(channel, pixels, count)
    for process in started:
        process.join()
    store.remove(IMAGES)
    return max(process.exitcode for process in started)


if __name__ == "__main__":
    sys.exit(main())
