/* SPDX-License-Identifier: MIT */
/*
 * The queue of descriptors to be closed: daemon/loop/closer.c, for every
 * interleaving of an owner that puts some, and closers that take them.
 *
 * The idea: a closer loads two numbers, of which another closer and the owner
 * may write one each meanwhile. A load that does not acquire lets the load behind
 * it go first; so does an exchange that fails. Each descriptor must be closed, by
 * one closer, and nothing else: what lies in a slot of which nothing was put is
 * the number of a descriptor that is long gone, or 0.
 *
 * What may be set from outside: CLOSERS (2 or 3), and FDS that are put into a
 * queue of SIZE. What may be broken: see closer.sh.
 */
#ifndef CLOSERS
#define CLOSERS 2
#endif
#ifndef FDS
#define FDS 3
#endif
#ifndef SIZE
#define SIZE 2
#endif

#if CLOSERS > 2
#define ALL_ASLEEP (asleep[0] && asleep[1] && asleep[2])
#else
#define ALL_ASLEEP (asleep[0] && asleep[1])
#endif
#define NOTHING 255

byte put, taken;
byte fds[SIZE] = NOTHING;
bool asleep[CLOSERS], done;

inline wake_one()
{
	atomic {
		if
		:: asleep[0] -> asleep[0] = false
		:: asleep[1] -> asleep[1] = false
#if CLOSERS > 2
		:: asleep[2] -> asleep[2] = false
#endif
		:: else
		fi
	}
}

active proctype owner()
{
	byte t;

	do
	:: put < FDS ->
		t = taken;
		if
		:: put - t < SIZE ->
#ifdef PUT_FIRST
			put++;
			fds[(put - 1) % SIZE] = put - 1;
#else
			fds[put % SIZE] = put;
			put++;
#endif
			wake_one()
		:: else /* it comes back when there is room */
		fi
	:: else -> break
	od;
	done = true
}

/* Of taken, and of put behind it. */
inline look()
{
	t = taken;
	p = put
#ifdef TAKEN_RELAXED
	if
	:: t = taken /* and put came first */
	:: skip
	fi
#endif
}

active [CLOSERS] proctype closer()
{
	byte t, p, early, fd;
	bool ok;

end:	do
	:: look();
again:		if
		:: t == p ->
			atomic {
				if
#ifdef SLEEP_ANYHOW
				:: true -> asleep[_pid - 1] = true
#else
				:: put == p -> asleep[_pid - 1] = true
				:: else
#endif
				fi;
				ok = 0; fd = 0; early = 0; t = 0; p = 0
			}
end_asleep:		!asleep[_pid - 1]
		:: else ->
			early = put;
#ifndef SLOT_AFTER
			fd = fds[t % SIZE];
#endif
			atomic {
				ok = taken == t;
				if
				:: ok ->
					assert(t < put);
					taken++
				:: else -> t = taken
				fi
			}
			if
			:: ok ->
#ifdef SLOT_AFTER
				fd = fds[t % SIZE];
#endif
				assert(fd == t)
			:: else ->
				p = put;
#ifdef FAILED_RELAXED
				if
				:: p = early
				:: skip
				fi;
#endif
				goto again
			fi
		fi
	od
}

active proctype quiet()
{
	atomic {
		done && ALL_ASLEEP;
		assert(taken == put)
	}
}
