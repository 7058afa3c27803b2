# SPDX-License-Identifier: MIT
"""The bytes of a node on their way: read from its file, and around the ring, into
memory that is taken meanwhile. Each of these goes ahead of the next in a thread of its
own, so that neither disk nor link waits for another one."""
import threading
from itertools import zip_longest

import torch

from .ring import lost


class Reader:
    """Reads this node's chunks into the memories of their shares. One that is blocked
    by its file can be left behind."""

    def __init__(self, store, source, chunks, memories):
        self._store, self._source, self._chunks = store, source, chunks
        self._memories = memories
        self._done = [threading.Event() for _ in chunks]
        self._stopped = False
        self.error, self.bytes = None, 0
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self):
        """Nobody wants the rest: its memory is free after this chunk."""
        self._stopped = True

    def _run(self):
        try:
            for (i, chunk), done in zip(self._chunks, self._done):
                if self._stopped:
                    break
                whole = self._source.shards[chunk.file][3]
                memory = self._memories[i][chunk.at:chunk.at + chunk.size]
                self._store._take(memory)
                memory.copy_(whole[chunk.offset:chunk.offset + chunk.size])
                self.bytes += chunk.size
                done.set()
        except Exception as e:  # it is reported to all ranks
            self.error = e
        for done in self._done:
            done.set()

    def wait(self, i, deadline):
        """Until chunk i is there, or cannot be."""
        if not self._done[i].wait(deadline.left()):
            raise lost(deadline, f"the disk of {self._source.path}")


def _rounds(share):
    """The chunks that are sent at a time, one of each node of the share, or None."""
    return zip_longest(*(share.chunks.get(n, ()) for n in share.nodes))


class Taker:
    """Takes the memory of a node in the order in which chunks come, as to take all of
    it can last as long as a load. A chunk for which there is none goes to a place that
    nobody reads: so the ring goes on, and the error is reported in the end."""

    def __init__(self, store, plan, me, memory, memories):
        self._store, self._plan, self._me = store, plan, me
        self._memory, self._memories = memory, memories
        self._taken, self._done, self._stopped = 0, False, False
        self._asked = 0  # of rounds, as _taken
        self._moved = threading.Condition()
        self.error = None
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self):
        self._stopped = True

    def _run(self):
        try:
            for i, share in self._plan.of(self._me):
                for chunks in _rounds(share):
                    if self._stopped:
                        return
                    self._take(i, chunks)
            self._store._take(self._memory)  # what lies between
        except Exception as e:  # it is reported to all ranks
            self.error = e
        with self._moved:
            self._done = True
            self._moved.notify()

    def _take(self, i, chunks):
        for c in filter(None, chunks):
            self._store._take(self._memories[i][c.at:c.at + c.size])
        with self._moved:
            self._taken += 1
            self._moved.notify()

    def _wait(self, until, deadline):
        with self._moved:
            if not self._moved.wait_for(until, deadline.left()):
                raise lost(deadline, "the memory of this node")

    def parts(self, i, deadline):
        """Where the chunks of share i go, round by round. All of this node's shares
        are asked for, in their order."""
        flat, first = self._memories[i].torch(), self._asked
        for r, chunks in enumerate(_rounds(self._plan.shares[i]), first):
            self._asked += 1
            self._wait(lambda: self._taken > r or self._done, deadline)
            yield [c and (flat[c.at:c.at + c.size] if self._taken > r else
                          torch.empty(c.size, dtype=torch.uint8))
                   for c in chunks]

    def join(self, deadline):
        """Until all is taken, or cannot be."""
        self._wait(lambda: self._done, deadline)


def exchange(plan, me, taker, reader, ring_of, deadline):
    """Sends what this node has read, and receives the rest."""
    read = 0
    for i, share in plan.of(me):
        mine = len(share.chunks.get(me, ()))

        def ready(r, first=read, mine=mine):
            if r < mine:
                reader.wait(first + r, deadline)

        ring_of(share.nodes).pass_on(taker.parts(i, deadline), ready)
        read += mine
