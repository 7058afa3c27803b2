# SPDX-License-Identifier: MIT
"""What the ranks of a process group say to each other, and the tensors that they
pass on: around rings, with one deadline for all of it, and errors that name the
rank which did not answer."""
import datetime
import errno
import json
import time
from collections import deque
from itertools import chain, count, islice, repeat

import torch
import torch.distributed as dist

# What a rank says at once: JSON, padded with spaces. Its texts, four at most,
# are cut to TEXT bytes of JSON each.
RECORD = 4096
TEXT = 800

# Rounds whose parts may be under way at once. A part is sent when its receiver has
# said that it waits for it; that message goes the other way, behind what its sender
# sends itself. Picked: for links with a queue of 50 ms.
AHEAD = 4

VERB = "load_file"


def cut(text):
    """A text that is not too long for a record."""
    while len(json.dumps(text)) > TEXT:
        text = text[:len(text) * 9 // 10]
    return text


class Deadline:
    def __init__(self, seconds):
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self):
        """Seconds; 0: it has passed."""
        return max(self._end - time.monotonic(), 0)


def lost(deadline, what, error=None):
    """Another rank is gone, or too slow."""
    if deadline.left() <= 0 or (error and "imed out" in str(error)):
        return TimeoutError(
            errno.ETIMEDOUT,
            f"{VERB}: {what} did not answer within {deadline.seconds:g} s; see "
            "whether it still runs and can read the file, or give a longer "
            "timeout")
    # Of gloo's own words only what happened, without where in its sources.
    why = str(error).rpartition("] ")[2]
    return ConnectionError(
        errno.ECONNRESET,
        f"{VERB}: {what} cannot be reached: it has ended, or gave up because "
        f"of another rank; see what that one reports ({why.split('. ')[0]})")


class Ring:
    """Some ranks of a group, in a circle: each sends to the next one. names
    are what errors call them."""

    def __init__(self, group, members, deadline, names=None):
        me = dist.get_rank(group)
        self._group, self._deadline = group, deadline
        self._size, self._me = len(members), members.index(me)
        self._names = names or [f"rank {m}" for m in members]
        self._after = self._global(members[(self._me + 1) % self._size])
        self._before = self._global(members[self._me - 1])
        # Whose part comes when; ours is the first.
        self._turns = [(self._me - step) % self._size
                       for step in range(self._size)]

    def _global(self, rank):
        return rank if self._group is None else \
            dist.get_global_rank(self._group, rank)

    def _wait(self, work, at):
        if work is None:
            return
        left = self._deadline.left()
        try:
            # 0 would wait for ever.
            work.wait(datetime.timedelta(seconds=max(left, .001)))
        except RuntimeError as e:
            raise lost(self._deadline, self._names[at % self._size],
                        e) from None

    def _start(self, call, part, rank):
        """A transfer of a part, if there is one."""
        try:
            return None if part is None else call(part, rank, self._group)
        except RuntimeError as e:
            raise lost(self._deadline,
                        self._names[(self._me - 1) % self._size], e) from None

    def _steps(self, rounds):
        """What is sent in each step: its own part of the next round; of the round
        before that what has come from the member before, which has had a step's time
        for its way; and so on. Pairs of a turn and a round's parts."""
        last = deque(maxlen=self._size - 1)
        for parts in chain(rounds, repeat(None, self._size - 2)):
            last.appendleft(parts)
            yield [(t, p) for t, p in enumerate(last) if p]

    def _begun(self, step):
        """What a step sends, and what comes in the order in which the member before
        sends it."""
        return step, [
            self._start(dist.irecv, p[self._turns[t + 1]], self._before)
            for t, p in step]

    def pass_on(self, rounds, ready=lambda i: None):
        """Of each round: a tensor for each member, its own, which all others get,
        and places for theirs. None: that one has nothing. ready is called before
        this one's own part of a round is sent. Several steps are under way at a
        time, so that the links are never idle."""
        if self._size == 1:
            for i, _ in enumerate(rounds):
                ready(i)
            return
        steps, going, came = self._steps(rounds), deque(), {}
        begun = deque(map(self._begun, islice(steps, AHEAD)))
        for i in count():
            if not begun:
                break
            step, coming = begun.popleft()
            arrived = dict(zip((t + 1 for t, _ in step), coming))
            for t, parts in step:
                if t == 0:
                    ready(i)
                else:
                    self._wait(came.pop(t, None), self._me - 1)
                going.append(self._start(
                    dist.isend, parts[self._turns[t]], self._after))
            for work in came.values():
                self._wait(work, self._me - 1)
            came = arrived
            begun.extend(map(self._begun, islice(steps, 1)))
            while len(going) > AHEAD * self._size:
                self._wait(going.popleft(), self._me + 1)
        for work in came.values():
            self._wait(work, self._me - 1)
        for work in going:
            self._wait(work, self._me + 1)

    def share(self, mine):
        """What each member says in as many bytes, one or more."""
        said = [bytearray(len(mine)) for _ in range(self._size)]
        said[self._me][:] = mine
        self.pass_on([[torch.frombuffer(s, dtype=torch.uint8) for s in said]])
        return said

    def tell(self, record):
        """What each member says, as a list of dicts."""
        said = self.share(json.dumps(record).encode().ljust(RECORD))
        found = []
        for name, text in zip(self._names, said):
            try:
                found.append(dict(json.loads(text)))
            except ValueError:
                raise ConnectionError(
                    errno.EBADMSG, f"{VERB}: what {name} says is not "
                    "understood; use one version of tarn on all nodes"
                ) from None
        return found
