/* SPDX-License-Identifier: MIT */
/*
 * The ring of a channel, queue mode: publish, receive, release, close, deaths
 * at any step, a reaper that dies too.
 *
 * The idea: what shm/ring_internal.h argues in prose, for every interleaving.
 * Each step reads or writes one shared word, as the code does, all of them
 * sequentially consistent, as they are in the code. A lone participant raises
 * tail and head now and then only: here, whether it does is chance. Positions
 * count from LAPS on and do not wrap. Three things are asserted:
 *
 *	- a slot that somebody fills or reads is nobody else's (in take, fill);
 *	- an item is delivered again only if its reader died before it released
 *	  it, and those of one producer come in order (in deliver);
 *	- when all is quiet, all slots are free, and what was published was
 *	  delivered and released (in quiet).
 *
 * What may be set from outside: PRODUCERS with ITEMS each, CONSUMERS, SLOTS,
 * DEATHS of them, CRASHES of the reaper. What may be broken, to see it found:
 * see ring.sh.
 */
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef ITEMS
#define ITEMS 1
#endif
#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define ORDER SLOTS
#define PEOPLE (PRODUCERS + CONSUMERS)
#define NONE 0

#define FREE 0
#define FILLING 1
#define OFFERED 2
#define READING 3
#define RETURNED 4

/* A slot's word in three fields, read and swapped as one. */
byte state[SLOTS], owner[SLOTS], at[SLOTS];
/* Entry p % ORDER: position, owner, slot. */
byte placed[ORDER], whose[ORDER], which[ORDER];
byte tail = ORDER, head = ORDER;
bool returned;
byte returns;

/* ---- what only the proof knows ------------------------------------------- */

#define ALL (PRODUCERS * ITEMS)
byte inside[SLOTS];	/* who writes or reads its bytes now, plus one */
byte item[SLOTS];	/* its bytes: the number of an item, plus one */
byte delivered[ALL];
bool published[ALL], released[ALL];
byte last[PRODUCERS];	/* of the first deliveries */
bool dead[PEOPLE], done[PEOPLE], reaped[PEOPLE];
byte deaths = DEATHS, crashes = CRASHES;
bool crash;

#define IS(s, st, o, p) (state[s] == (st) && owner[s] == (o) && at[s] == (p))

inline swap(sw, st1, o1, p1, st2, o2, p2, ok1)
{
	d_step {
		if
		:: IS(sw, st1, o1, p1) ->
			state[sw] = st2;
			owner[sw] = o2;
			at[sw] = p2;
			ok1 = true
		:: else -> ok1 = false
		fi
	}
}

inline enter(in, me1)
{
	assert(inside[in] == 0);
	inside[in] = me1 + 1
}

proctype producer(byte me)
{
	byte n, s, p, c, end_;
	bool won;

	{
	do
	:: n < ITEMS ->
		/* acquire: T1 */
		atomic {
			if
			:: state[0] == FREE -> s = 0
#if SLOTS > 1
			:: state[1] == FREE -> s = 1
#endif
			fi;
			c = at[s];
			state[s] = FILLING;
			owner[s] = me;
			enter(s, me)
		};
		atomic { item[s] = me * ITEMS + n + 1; 
			if
			:: end_ > tail -> p = end_
			:: else -> p = tail
			fi };
again:		atomic {
			if
			:: p < c + 1 -> p = c + 1
			:: else
			fi
		};
		if
		:: d_step { placed[p % ORDER] == p -> p++ };
			d_step {
				if
				:: tail < p -> tail = p
				:: else
				fi
			};
			goto again
		:: atomic { placed[p % ORDER] > p -> p = tail; goto again }
#ifndef NO_ROOM
		:: atomic { placed[p % ORDER] < p && p - head >= ORDER ->
			if
			:: placed[head % ORDER] == head &&
				!IS(which[head % ORDER], OFFERED,
					whose[head % ORDER], head) ->
				head++
			:: else -> assert(false) /* somebody lies */
			fi;
			goto again
		   }
		:: d_step { placed[p % ORDER] < p && p - head < ORDER }
#else
		:: d_step { placed[p % ORDER] < p }
#endif
		fi;
#ifdef PLACE_FIRST
		skip;
#else
		atomic {
			assert(owner[s] == me);
			state[s] = OFFERED;
			at[s] = p;
			inside[s] = 0
		};
#endif
		atomic { /* the moment of publication */
			if
			:: placed[p % ORDER] < p ->
				placed[p % ORDER] = p;
				whose[p % ORDER] = me;
				which[p % ORDER] = s;
				published[me * ITEMS + n] = true;
				won = true
			:: else -> won = false
			fi
		};
		if
		:: !won ->
			goto again
		:: else
		fi;
#ifdef PLACE_FIRST
		atomic {
			state[s] = OFFERED;
			at[s] = p;
			inside[s] = 0
		};
#endif
		atomic { /* tail may be raised, or not yet */
			if
			:: tail < p + 1 -> tail = p + 1
			:: true
			fi;
			end_ = p + 1;
			n++; s = 0; p = 0; c = 0; won = false
		}
	:: else -> break
	od
	} unless { dead[me] };
	atomic {
		for (s : 0 .. SLOTS - 1) {
			if
			:: inside[s] == me + 1 -> inside[s] = 0
			:: else
			fi
		};
		done[me] = true
	}
}

/* Where a consumer looks first: what it knows itself, or all. */
#define FIRST (cur > head -> cur : head)

inline deliver(again)
{
	target = item[s] - 1;
	assert(published[target]);
	assert(!released[target] && (delivered[target] == 0 || again));
	if
	:: delivered[target] == 0 && !again ->
		assert(last[target / ITEMS] <= target % ITEMS);
		last[target / ITEMS] = target % ITEMS + 1
	:: else
	fi;
	delivered[target] = 1;
	enter(s, me)
}

proctype consumer(byte me)
{
	byte s, h, o, target, hint, cur;
	bool won;

	{
end:	do
	:: d_step { returned -> hint = returns };
		atomic {
			if
			:: state[0] == RETURNED -> s = 0; o = at[0]
#if SLOTS > 1
			:: state[1] == RETURNED && (state[0] != RETURNED ||
				at[1] < at[0]) -> s = 1; o = at[1]
#endif
			:: else -> s = SLOTS
			fi
		};
		if
		:: s == SLOTS ->
			d_step {
				s = 0;
				if
#ifdef CLEAR_ANYHOW
				:: true -> returned = false
#else
				:: returns == hint -> returned = false
				:: else
#endif
				fi;
				hint = 0
			}
		:: else ->
			atomic {
				swap(s, RETURNED, 0, o, READING, me, o, won);
				hint = 0;
				if
				:: won -> deliver(true); h = o
				:: else
				fi;
				o = 0; target = 0
			};
			if
			:: won -> goto reading
			:: else
			fi
		fi
	:: atomic { !returned &&
			placed[FIRST % ORDER] == FIRST ->
			h = FIRST; s = which[h % ORDER]; o = whose[h % ORDER] };
		atomic {
			swap(s, OFFERED, o, h, READING, me, h, won);
			if
			:: won -> deliver(false)
			:: else
			fi;
			o = 0; target = 0
		};
		atomic { /* its taker may have raised head, or not yet */
			cur = h + 1;
			if
			:: head < h + 1 -> head = h + 1
			:: won || head >= h + 1
			fi
		};
		if
		:: won ->
reading:		atomic {
				target = item[s] - 1;
				inside[s] = 0;
				swap(s, READING, me, h, FREE, 0, h, won);
				assert(won);
				released[target] = true;
				target = 0
			}
		:: else
		fi;
		d_step { s = 0; h = 0; won = false }
	od
	} unless { dead[me] };
	atomic {
		for (s : 0 .. SLOTS - 1) {
			if
			:: inside[s] == me + 1 -> inside[s] = 0
			:: else
			fi
		};
		done[me] = true
	}
}

/* One slot of the sweep: read, judge, swap. */
inline sweep(sl)
{
	d_step { st = state[sl]; o = owner[sl]; p = at[sl]; e = false };
	if
#ifndef SAY_ONLY_NEW
	:: st == RETURNED -> found = true
#endif
	:: st == FILLING && o == who -> swap(sl, st, o, p, FREE, 0, p, won)
	:: st == READING && o == who ->
		swap(sl, st, o, p, RETURNED, 0, p, won);
		found = true
	:: st == OFFERED && o == who ->
		e = (placed[p % ORDER] == p && whose[p % ORDER] == o &&
			which[p % ORDER] == sl);
		if
#ifdef FREE_OFFERED
		:: true -> swap(sl, st, o, p, FREE, 0, p - 1, won)
#elif defined(KEEP_OFFERED)
		:: true
#elif defined(FREE_AT_PLACE)
		:: !e -> swap(sl, st, o, p, FREE, 0, p, won)
		:: e
#else
		:: !e -> swap(sl, st, o, p, FREE, 0, p - 1, won)
		:: e
#endif
		fi
	:: else
	fi;
	d_step { st = 0; o = 0; p = 0; e = false; won = false }
}

#define GONE(i) (dead[i] && done[i] && !reaped[i])

proctype reaper()
{
	byte who, st, o, p;
	bool found, won, e;

begin:	atomic { crash = false; found = false; st = 0; o = 0; p = 0;
		e = false; won = false; who = 0 };
	{
end:	do
	:: atomic {
		if
		:: GONE(0) -> who = 0
		:: GONE(1) -> who = 1
#if PEOPLE > 2
		:: GONE(2) -> who = 2
#endif
#if PEOPLE > 3
		:: GONE(3) -> who = 3
#endif
		fi
	   };
		sweep(0);
#if SLOTS > 1
		sweep(1);
#endif
		if
		:: found -> d_step { returned = true; returns++; found = false }
		:: !found
		fi;
		reaped[who] = true;
		who = 0
	od
	} unless {
		atomic { crash -> goto begin }
	}
}

proctype killer()
{
end:	do
	:: atomic { deaths > 0 && !done[0] && !dead[0] ->
		deaths--; dead[0] = true }
#if PRODUCERS > 1
	:: atomic { deaths > 0 && !done[1] && !dead[1] ->
		deaths--; dead[1] = true }
#endif
#if CONSUMERS > 1
	/* One consumer lives, or nothing would be delivered. */
	:: atomic { deaths > 0 && !done[PRODUCERS] && !dead[PRODUCERS] ->
		deaths--; dead[PRODUCERS] = true }
#endif
#if CONSUMERS > 2
	:: atomic { deaths > 0 && !done[PRODUCERS + 1] && !dead[PRODUCERS + 1] ->
		deaths--; dead[PRODUCERS + 1] = true }
#endif
	:: atomic { crashes > 0 && !crash -> crashes--; crash = true }
	od
}

/* Nothing can go on: all that is not free then stays so for ever. */
proctype quiet()
{
	byte i;

end:	atomic {
		timeout ->
		assert(!crash);
		for (i : 0 .. PEOPLE - 1) {
			assert(done[i] || i >= PRODUCERS);
			assert(!dead[i] || reaped[i])
		};
		for (i : 0 .. SLOTS - 1) {
			assert(state[i] == FREE)
		};
		for (i : 0 .. ALL - 1) {
			assert(!published[i] || released[i])
		}
	}
}

init {
	atomic {
		byte i;

		for (i : 0 .. ORDER - 1) {
			placed[i] = i
		};
		for (i : 0 .. PRODUCERS - 1) {
			run producer(i)
		};
		for (i : PRODUCERS .. PEOPLE - 1) {
			run consumer(i)
		};
		run reaper();
		run killer();
		run quiet()
	}
}
