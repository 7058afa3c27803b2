# SPDX-License-Identifier: MIT
"""A small vocabulary for tests in Python that speak TAP: tap.h's, as far as
they need it. A test point is printed as it is made, and finish() says how many
they were."""
import faulthandler
import signal
import sys

# Out of time, a test is told to quit by SIGQUIT, and says where it is.
faulthandler.register(signal.SIGQUIT, all_threads=True, chain=True)

_LINE_MAX = 600  # of what is seen: some is a whole file
_count = _failed = 0


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def skipped(what, why):
    global _count
    _count += 1
    print(f"ok {_count} - {what} # SKIP {why}", flush=True)


def ok(good, what, *seen):
    """What was seen is told where it is not good; objects as their repr."""
    global _count, _failed
    _count += 1
    _failed += not good
    print(f"{'ok' if good else 'not ok'} {_count} - {what}", flush=True)
    for thing in () if good else seen:
        text = thing if isinstance(thing, str) else repr(thing)
        for line in text.splitlines():
            print(f"# {line[:_LINE_MAX]}", flush=True)
    return good


def equal(seen, wanted, what):
    return ok(seen == wanted, what, f"wanted: {wanted!r}", f"seen: {seen!r}")


def raises(error, part, what, call, *args, **keywords):
    """The call raises that class, with these words in its message."""
    try:
        seen = call(*args, **keywords)
    except BaseException as e:
        return ok(isinstance(e, error) and part in str(e), what,
                  f"wanted: {error.__name__}: ...{part}...",
                  f"seen: {type(e).__name__}: {e}")
    return ok(False, what, f"wanted: {error.__name__}", f"seen: {seen!r}")


def finish():
    """The exit status."""
    print(f"1..{_count}", flush=True)
    return _failed > 0
