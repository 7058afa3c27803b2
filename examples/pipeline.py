#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Images from workers to a trainer, through a channel.

The images (u8 [n, height, width]; made up where no file is named) are in
memory once, for all workers. A worker picks some, scales them to floats, adds
noise, and does all that in a slot of the channel: the trainer reads the batch
where it was made. It learns to take the noise away again. The faster one
waits for the other; a worker that dies gives its slot back.
"""
import argparse
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


def work(number, batches):
    """A worker: makes so many batches."""
    store = tarn.default_store()
    images = store[IMAGES].numpy()
    channel = store.channel(BATCHES, create=False)
    random = numpy.random.default_rng(number)
    for _ in range(batches):
        with channel.acquire() as slot:  # leaving the block publishes it
            shape = (BATCH, images[0].size)
            noisy = numpy.asarray(slot.empty(shape, "F32"))
            clean = numpy.asarray(slot.empty(shape, "F32"))
            chosen = images[random.integers(len(images), size=BATCH)]
            numpy.multiply(chosen.reshape(shape), 1 / 255, out=clean)
            random.standard_normal(dtype=noisy.dtype, out=noisy)
            noisy *= NOISE
            noisy += clean


def train(channel, pixels, batches):
    """A linear denoiser, by steps against the mean of each batch."""
    weight = numpy.zeros((pixels, pixels), numpy.float32)
    for step in range(1, batches + 1):
        with channel.receive(timeout=60) as item:
            noisy, clean = item[0].numpy(), item[1].numpy()
            error = noisy @ weight - clean
            weight -= 0.05 * noisy.T @ error / len(noisy)
        if step in (1, batches):
            print(f"step {step}: {numpy.square(error).mean():.4f} off",
                  flush=True)


def count(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return int(text)


def open_images(path):
    """The first tensor of a file, in memory that all workers share."""
    images = next(iter(tarn.load(path).values()), None)
    if images is None or images.dtype != "U8" or len(images.shape) != 3:
        raise ValueError(f"{path}: it has no images, which are U8 of shape "
                         "[n, height, width]")
    return images


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", metavar="IMAGES.npy", nargs="?",
                        help="U8 of shape [n, height, width] (made up)")
    parser.add_argument("batches", metavar="BATCHES", nargs="?", type=count,
                        default=200, help="how many are made (200)")
    parser.add_argument("workers", metavar="WORKERS", nargs="?", type=count,
                        default=2, help="how many processes make them (2)")
    return parser, parser.parse_args()


def main():
    parser, given = arguments()
    try:
        images = open_images(given.images) if given.images else make_up()
    except (OSError, ValueError) as e:
        parser.exit(2, f"pipeline.py: {e}\n")
    batches, workers = given.batches, given.workers
    store = tarn.default_store()
    store.publish(IMAGES, images)
    pixels = images.shape[1] * images.shape[2]
    channel = store.channel(BATCHES, slots=2 * workers + 1, ephemeral=True,
                            slot_bytes=2 * BATCH * (pixels * 4 + 64))
    channel.join("consumer")
    started = [multiprocessing.Process(
        target=work, args=(n, batches // workers + (n < batches % workers)))
        for n in range(workers)]
    for process in started:
        process.start()
    train(channel, pixels, batches)
    for process in started:
        process.join()
    store.remove(IMAGES)
    return max(process.exitcode for process in started)


if __name__ == "__main__":
    sys.exit(main())
