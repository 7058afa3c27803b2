# SPDX-License-Identifier: MIT
"""The plain face of channels: senders and receivers, by a name."""
import time

from . import _store, _tarn

# How often a receiver looks for a channel that is not there yet, in seconds,
# where the store cannot tell it: at first, and after a while.
_LOOK, _LOOK_LATER = 0.02, 0.5


def sender(name, *, store=None, slots=None, slot_bytes=None, mode=None,
           tensors=None, pickle=True, close=True):
    """Sends objects to the receivers of the channel of that name:

        with tarn.sender("decoded") as out:
            out.put({"x": x, "path": path})

    The channel is made if there is none; slots, slot_bytes and mode are for
    that, see Store.channel. The last sender that leaves its block closes it,
    and receivers then see the end after the last item; soon after the last of
    them its name goes. (Where senders come and go, hold one over all of the
    time, or have close=False.) An exception that leaves the block closes it
    just the same. A sender that is killed closes nothing, since another may
    take its place: a receiver that must know of it uses a timeout.

    FileExistsError: an earlier channel of that name was closed, and not all of
    its items were received. A receiver gets them; Store.remove drops them."""
    store = _store.default_store() if store is None else store
    return Sender(_tarn.Channel(store, name, slots, slot_bytes, mode, tensors,
                                pickle=pickle), close)


def receiver(name, *, store=None, timeout=None, pickle=True):
    """Receives what is sent to the channel of that name, until its end:

        for item in tarn.receiver("decoded"):
            use(item["x"], item["path"])

    It waits for the channel to be made. timeout, in seconds, is for that and
    for each item: TimeoutError. Of a queue each item goes to one receiver, of
    a broadcast to all, from here on. An item is done with when the next is
    asked for: if this process is killed before, another one gets it. (If all
    others have seen the end by then, the item stays in the channel, and the
    next receiver that joins gets it. All is done if channel.info()["ready"] is
    0 after the receivers have ended.)

    A receiver ignores a channel that was finished and emptied before it
    started; it waits for the next sender of this name. So a receiver can come
    too late. A receiver that started before sees the end."""
    store = _store.default_store() if store is None else store
    channel = _wait_for(store, name, timeout, pickle)
    channel.join("consumer")
    return Receiver(channel, timeout)


class Sender:
    """What tarn.sender returns."""

    def __init__(self, channel, close=True):
        self.channel, self._close = channel, close
        channel.join("producer")

    def put(self, obj, timeout=None):
        """Sends an object: see Channel.put."""
        self.channel.put(obj, timeout)

    def close(self):
        """Leaves; the last sender that does ends the channel."""
        self.channel.leave("producer")
        if self._close and self.channel.info()["producers"] == 0:
            self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __reduce__(self):
        return Sender, (self.channel, self._close)

    def __repr__(self):
        return f"<tarn.Sender to {self.channel.name!r}>"


class Receiver:
    """What tarn.receiver returns: an iterator."""

    def __init__(self, channel, timeout=None):
        self.channel, self._timeout = channel, timeout
        self._item = None  # the item that the caller is working on

    def get(self, timeout=None):
        """The next object. BrokenPipeError: the end."""
        self._item = None
        item = self.channel.receive(
            self._timeout if timeout is None else timeout)
        obj = item.get()
        self._item = item
        return obj

    def close(self):
        """Receives no more; arrays that it gave stay."""
        self._item = None
        self.channel.leave("consumer")

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.get()
        except BrokenPipeError:
            raise StopIteration from None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __reduce__(self):
        return Receiver, (self.channel, self._timeout)

    def __repr__(self):
        return f"<tarn.Receiver of {self.channel.name!r}>"


def _wait_for(store, name, timeout, pickle):
    """The channel of that name, once it exists. One that ended before this
    call does not count; one that came and ended since does."""
    end = None if timeout is None else time.monotonic() + timeout
    pause = _LOOK
    channel = before = _find(store, name, pickle)
    if channel is not None and not _is_over(channel):
        return channel
    while True:
        there, channel = channel is not None, None
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError(
                f"no channel {name!r} within {timeout} seconds")
        if there:  # its name stays a while
            time.sleep(pause if left is None else min(pause, left))
            pause = min(2 * pause, _LOOK_LATER)
        else:
            _wait_a_while(store, name, left)
            pause = _LOOK
        # In this order: if the name was free, _find() finds another channel.
        if before is not None and before.info()["unlinked"]:
            before = None
        channel = _find(store, name, pickle)
        if channel is not None and (before is None or not _is_over(channel)):
            return channel


def _find(store, name, pickle):
    try:
        return _tarn.Channel(store, name, create=False, pickle=pickle)
    except _tarn.NotFoundError:
        return None


def _is_over(channel):
    """Has the channel ended for a receiver that joins now? A broadcast has no
    items for it."""
    info = channel.info()
    return info["closed"] and (info["mode"] == "broadcast" or
                               not info["ready"])


def _wait_a_while(store, name, left):
    """Waits until something is published as name, or a shorter time."""
    begun = time.monotonic()
    try:
        store.wait(name, left)
    except TimeoutError:
        return
    except (ConnectionError, PermissionError):
        raise
    except (OSError, ValueError):  # a channel is no tensor
        pass
    if time.monotonic() - begun < _LOOK:
        time.sleep(_LOOK)


# ---- from one process to another ----

def _reduce(channel, pickle):
    return _reopen, (channel.store, channel.name, pickle)


def _reopen(store, name, pickle):
    """The same channel in another process."""
    return _tarn.Channel(store, name, create=False, pickle=pickle)
