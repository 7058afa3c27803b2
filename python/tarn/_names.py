# SPDX-License-Identifier: MIT
"""The names of a mapping's tensors as text for people: in a repr, and in the
error that a missing name raises."""
import difflib
import itertools

from . import _tarn

SHOWN = 3
# With more names than this the search for the nearest takes too long.
SEARCHED = 10_000


def shown(names):
    """The first of them."""
    some = ", ".join(itertools.islice(names, SHOWN))
    return some + (", ..." if len(names) > SHOWN else "")


def summary(whole):
    """How many tensors, how large, the first names."""
    size = float(sum(t.nbytes for t in whole.values()))
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        del units[0]
    size = f"{size:.{0 if units[0] == 'bytes' else 1}f} {units[0]}"
    return (f"{len(whole)} tensor{'' if len(whole) == 1 else 's'}, {size}: "
            f"{shown(whole)}")


class Missing(_tarn.NotFoundError):
    """A NotFoundError that knows which names exist. It looks at them only when
    its text is read: mappings raise it in get(), where no one reads it."""

    _mapping = None

    def sentence(self):
        """The error's sentence, with the names that may have been meant."""
        names = () if self._mapping is None else self._mapping
        # A Store is true, also without a name.
        if not 0 < len(names) <= SEARCHED:
            return self.strerror
        near = difflib.get_close_matches(self._name, names, SHOWN)
        if near:
            return (f"{self.strerror}; did you mean "
                    f"{' or '.join(map(repr, near))}?")
        return f"{self.strerror}; it has {shown(names)}"

    def __str__(self):
        return f"[Errno {self.errno}] {self.sentence()}"

    def __reduce__(self):
        return _tarn.NotFoundError, (self.errno, self.sentence())


Missing.__name__ = Missing.__qualname__ = "NotFoundError"
Missing.__module__ = "tarn"


def missing(mapping, name, errno, sentence):
    error = Missing(errno, sentence)
    error._mapping, error._name = mapping, name
    return error
