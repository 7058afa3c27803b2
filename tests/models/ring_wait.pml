/* SPDX-License-Identifier: MIT */
/*
 * How a ring's futex word puts to sleep and wakes: S1, S2, W1, W2 of
 * shm/ring_internal.h, as shm/ring_wait.c does them.
 *
 * The idea: as many wakers bring one item each as there are sleepers that want
 * one each. When nothing can go on, all must have got theirs: a wake-up that
 * was lost shows as a sleeper beside an item. The word is two bits (a taker, a
 * watcher may be asleep) and a count. A watcher waits until all items were
 * brought, and takes none. Passing a wake-up on, and deaths, are not here: the
 * reaper wakes all.
 */
#ifndef PAIRS
#define PAIRS 3
#endif

#ifndef WATCHERS
#define WATCHERS 0
#endif

byte items, n_done, brought;
bool bit_, watched;
byte count;
bool asleep[PAIRS];
bool watching[2]; /* asleep */
byte n_seen;	  /* watchers who have seen all */

proctype sleeper(byte me)
{
	byte seen;

	do
	:: atomic { items > 0 -> items--; break }
	:: atomic { items == 0 ->
			skip };
		atomic { bit_ = true; seen = count };	 /* S1 */
#ifndef NO_SECOND_LOOK
		if
		:: atomic { items > 0 -> items--; break } /* S2 */
		:: items == 0
		fi;
#endif
		atomic {
			if
			:: bit_ && count == seen -> asleep[me] = true
			:: else
			fi;
			seen = 0
		};
		!asleep[me]
	od;
	n_done++
}

proctype watcher(byte me)
{
	byte seen;

	do
	:: atomic { brought == PAIRS -> break }
	:: brought < PAIRS ->
		atomic { watched = true; seen = count };	/* S1 */
		if
		:: atomic { brought == PAIRS -> break }	/* S2 */
		:: brought < PAIRS
		fi;
		atomic {
			if
			:: watched && count == seen -> watching[me] = true
			:: else
			fi;
			seen = 0
		};
		!watching[me]
	od;
	n_seen++
}

inline wake_one()
{
	atomic {
		woken = false;
		if
		:: asleep[0] -> asleep[0] = false; woken = true
		:: asleep[1] -> asleep[1] = false; woken = true
#if PAIRS > 2
		:: asleep[2] -> asleep[2] = false; woken = true
#endif
#ifdef WAKE_ANY
		:: watching[0] -> watching[0] = false; woken = true
#endif
		:: else
		fi
	}
}

inline wake_all()
{
	d_step {
		asleep[0] = false;
		asleep[1] = false
#if PAIRS > 2
		; asleep[2] = false
#endif
	}
}

proctype waker()
{
	byte now;
	bool woken, swapped, takers, watchers;

	d_step { items++; brought++ }; /* W1 */
#ifndef WAKE_ANY
	atomic { /* W2 */
		takers = bit_;
		watchers = watched
	};
	if
	:: watchers ->
#ifdef LEAVE_COUNT
		watched = false;
#else
		d_step { watched = false; count++ };
#endif
		d_step { watching[0] = false; watching[1] = false }
	:: !watchers
	fi;
#else
	atomic {
		takers = bit_ || watched
	};
#endif
	if
	:: takers ->
		atomic { count++; now = count };
		wake_one();
		if
		:: !woken ->
			atomic {
				swapped = bit_ && count == now;
				bit_ = bit_ && !swapped;
#ifndef SAME_COUNT
				count = count + swapped
#endif
			};
#ifndef NO_SECOND_WAKE
			if
			:: swapped -> wake_all()
			:: else
			fi
#endif
		:: woken
#ifdef CLEAR_WHEN_WOKEN
			-> bit_ = false
#endif
		fi
	:: !takers
	fi;
	d_step { /* fewer states */
		now = 0; woken = false; swapped = false;
		takers = false; watchers = false
	}
}

proctype quiet()
{
end:	atomic { timeout -> assert(n_done == PAIRS && n_seen == WATCHERS) }
}

init {
	atomic {
		byte i;

		for (i : 0 .. PAIRS - 1) {
			run sleeper(i);
			run waker()
		};
#if WATCHERS
		run watcher(0);
#endif
#if WATCHERS > 1
		run watcher(1);
#endif
		run quiet()
	}
}
