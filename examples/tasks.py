#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tarn with asyncio: tasks that receive items, and wait for a name, while the
event loop goes on.

    tasks.py CHANNEL NAME

receives from CHANNEL until its end and meanwhile waits for NAME."""
import asyncio
import sys

import tarn


async def receive(channel):
    """The items of a channel. Its descriptor is readable while there may be
    one; a look that finds none makes the descriptor wait again."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    descriptor = channel.fileno()
    loop.add_reader(descriptor, ready.set)
    try:
        while True:
            try:
                yield channel.get(timeout=0)
            except TimeoutError:
                ready.clear()
                await ready.wait()
            except BrokenPipeError:  # the end
                return
    finally:
        loop.remove_reader(descriptor)


async def consume(channel):
    n = 0
    async for item in receive(channel):
        n += 1
    print(f"{n} items, the last one {item}")


async def main(channel_name, name):
    store = tarn.Store()
    # A call that sleeps goes to a thread: it does not hold the GIL.
    waiting = asyncio.create_task(asyncio.to_thread(store.wait, name, 60))
    await consume(store.channel(channel_name))
    print(f"{name} is {(await waiting).item()}")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit("usage: tasks.py CHANNEL NAME")
    asyncio.run(main(*sys.argv[1:]))
