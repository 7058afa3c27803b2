# SPDX-License-Identifier: MIT
"""Versions of a set, one after the other, as others publish them."""
import errno

from . import _store, _tarn

_FIELDS = ".fields"  # TARN_SET_FIELDS


class Version(_store.Snapshot):
    """One version of what is followed: a mapping from names to Tensors, all of
    which one commit left. It stays as it is, and holds its tensors, until
    release() or as long as it, or one of them, is held. Tensors that did not
    change since the version before are the same objects there.

    with version: releases it at the end of the block. Any thread may read it."""

    def __init__(self, commit, tensors, versions, commits, changed, removed,
                 form):
        super().__init__(commit, tensors, versions, commits)
        self._changed, self._removed = changed, removed
        self._form = form  # the tensor with the fields, or None

    @property
    def _tensors(self):
        if self._held is None:
            raise ValueError(f"the version of commit {self._commit} was "
                             "released")
        return self._held

    @_tensors.setter
    def _tensors(self, tensors):
        self._held = tensors

    def __repr__(self):
        held = "released" if self.released else f"{len(self)} tensors"
        return (f"<tarn.Version of commit {self._commit}: {held}, "
                f"{len(self._changed)} changed>")

    @property
    def changed(self):
        """The names that were published since the version that the follow
        returned before, a frozenset; of its first one all names. A name is
        among them also if the same bytes were published again."""
        return self._changed

    @property
    def removed(self):
        """The names that the version before had and this one has not, a
        frozenset."""
        return self._removed

    @property
    def fields(self):
        """The fields with which the set was published, a new dict; empty if it
        has none, or if a prefix is followed."""
        self._tensors  # released?
        return {} if self._form is None else self._form._set_fields()

    @property
    def digests(self):
        """The digests with which its tensors were published, a new dict of names
        to texts as Tensor.digest() returns; without those that have none, as
        what was published under a name of the set afterwards. Two versions have
        the same digest where the bytes are the same, also if they were published
        again."""
        tensors, form = self._tensors, self._form
        if form is None:
            return {}
        # What came after the fields is not what they have a digest of.
        commits, since = self._commits, self._commits[_FIELDS]
        return form._set_digests([n for n in tensors if commits[n] <= since])

    @property
    def released(self):
        """Was it released?"""
        return self._held is None

    def release(self):
        """Drops its tensors. What the program still holds of them, and what
        other versions share, stays, as do those of the newest version, which
        the follow needs until it returns a newer one. It may be called
        again."""
        self._held = self._form = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.release()


def _again(store, name, prefix, timeout):
    return Follow(store, name, prefix=prefix, timeout=timeout)


class Follow(_tarn.FollowBase):
    """The versions of a set, or of all names below a prefix, one after the
    other: an iterator that sleeps until there is a newer one. See
    Store.follow.

    It holds the two newest versions that it has returned, current and
    previous, until they are released, a newer one comes, or it is closed; so
    work that began with the older one ends in peace. What is published beside
    them is the newest version, so memory has three generations of what changed
    at most, unless the program holds more; two, if it releases previous before
    it waits. One thread at a time may wait with it; others begin their own, as
    does the child of a fork that came while a thread waited."""

    def __new__(cls, store, name=None, *, prefix=None, timeout=None):
        if (name is None) == (prefix is None):
            raise TypeError("follow takes the name of a set or prefix=")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"a set is named by a str, not {name!r}")
        if name is not None and (not name or name.endswith("/")):
            raise ValueError(f"{name!r} is no name of a set; prefix={name!r} "
                             "follows all names that begin so")
        return super().__new__(cls, store, f"{name}/" if prefix is None
                               else prefix, prefix is not None)

    def __init__(self, store, name=None, *, prefix=None, timeout=None):
        self._store, self._timeout = store, timeout
        self._name, self._prefix = name, prefix
        # The current version, the one before, and all Tensors, versions and
        # commits of names of the current one, which may be released: replaced in
        # one step, since a signal may raise an exception between two.
        self._state = None, None, {}, {}, {}
        self._removed = False  # all names were, since the current version

    def __reduce__(self):
        return _again, (self._store, self._name, self._prefix, self._timeout)

    def __repr__(self):
        what = repr(self._name) if self._prefix is None else \
            f"prefix={self._prefix!r}"
        at = self.version
        return f"<tarn.Follow {what}: {f'commit {at}' if at else 'no version'}>"

    @property
    def current(self):
        """The Version that was returned last, or None."""
        return self._state[0]

    @property
    def previous(self):
        """The Version before that, or None."""
        return self._state[1]

    @property
    def version(self):
        """The commit of the current version; 0: there was none so far."""
        return 0 if self.current is None else self.current.version

    def _take(self, commit, fresh, versions, commits, names):
        """The next version, of names without the set's prefix; fresh, versions
        and commits have those that were published since the current one."""
        current, _, known, known_versions, known_commits = self._state
        if commit == self.version:
            return current  # an exception came after it was made
        changed, removed = set(fresh), known.keys() - names
        known, known_versions = known | fresh, known_versions | versions
        known_commits = known_commits | commits
        for name in removed:
            del known[name], known_versions[name], known_commits[name]
        tensors, versions, form = dict(known), dict(known_versions), None
        if self._prefix is None:
            form = tensors.pop(_FIELDS, None)
            versions.pop(_FIELDS, None)
            changed.discard(_FIELDS)
            removed.discard(_FIELDS)
        version = Version(commit, tensors, versions, known_commits,
                          frozenset(changed), frozenset(removed), form)
        self._state = version, current, known, known_versions, known_commits
        return version

    def next(self, timeout=None):
        """Sleeps until there is a newer version than the current one, and
        returns the newest: versions that came and went in between are skipped.
        The first call waits for the set if it is not there. timeout is in
        seconds; None: for ever.

        TimeoutError: there was none in time. NotFoundError: all names of the
        set were removed, which is told once: the next call waits until it is
        published again. ConnectionResetError: the daemon is gone; versions
        that are held stay valid, and a new Store follows what a new daemon
        has. After any other error the call may be repeated."""
        try:
            version = self._newer(timeout)
        except BlockingIOError as e:
            if timeout is None:
                raise
            raise TimeoutError(errno.ETIMEDOUT, e.strerror) from None
        if version is None:
            since = f"newer than commit {self.version} of " if self.version \
                else "as "
            raise TimeoutError(errno.ETIMEDOUT, f"follow: nothing was published "
                               f"{since}{self._what()} within {timeout} s")
        return version

    def _newer(self, timeout):
        """A newer version, or None. All names gone is noted."""
        try:
            version = self._next(timeout, self.version)
        except _tarn.NotFoundError:
            self._removed = True
            raise
        if version is not None:
            self._removed = False
        return version

    def latest(self):
        """The newest version, without waiting: one that is newer than the
        current one, or else that one. NotFoundError: nothing is there, or all
        of it was removed. BlockingIOError: names are removed from the store
        faster than they can be read; call it again."""
        if self._newer(0) is None and (self.current is None or self._removed):
            raise _tarn.NotFoundError(
                errno.ENOENT, f"follow: nothing is published as {self._what()}"
                "; next() waits for it")
        return self.current

    def _what(self):
        return f"'{self._name}/'" if self._prefix is None \
            else f"'{self._prefix}'"

    def close(self):
        """Ends it, and drops the versions that it holds; those that the program
        holds stay. It may be called again."""
        self._end()
        self._state = None, None, {}, {}, {}

    def __iter__(self):
        return self

    def __next__(self):
        return self.next(self._timeout)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

