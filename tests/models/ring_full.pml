/* SPDX-License-Identifier: MIT */
/*
 * A ring in which no slot is free: a producer that looks in vain, and when it
 * may spare itself the next look (R1, R2 and Q1 to Q3 in shm/ring_internal.h).
 *
 * The idea: as in ring.pml each step reads or writes one shared word. A slot is
 * free or taken by a participant; its contents do not matter. A participant
 * gives a slot back (R1), counts that in its own word (R2), and wakes sleepers
 * (W2). The producers are threads of one participant, one at a time, as a lock
 * orders them: each adds the counts up, word by word (Q1, Q3), and then looks
 * at all slots (Q2) or, if the sum is that of the last look, at none. A failed
 * attempt is followed by another, or by a sleep: S1, the request of a look at
 * all slots, an attempt (S2). The model does not bound the attempts that use
 * the counts alone: the code does, for participants that do not count.
 *
 *	- a try that looks at no slot misses none that was free, and counted,
 *	  before it began (in spare);
 *	- when all is quiet nobody sleeps beside a free slot (in quiet).
 *
 * From outside: SLOTS, PLACES beside that of those who try, TURNS of each who
 * is in one, LIVES of such in all, who come to a place that was left or to a
 * new one, DEATHS of them at any step, THREADS that try. SILENT: no participant
 * counts, as a hostile one may not, nor does the reaper; then only the second
 * is so. What may be broken, to see it found: see ring_full.sh.
 */
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifndef TURNS
#define TURNS 1
#endif
#ifndef LIVES
#define LIVES 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef THREADS
#define THREADS 1
#endif
#define HEAD PLACES /* whose count is in the ring's head */

#define THEIRS 255
byte slot[SLOTS]; /* 0: free; else in the hands of a place, plus one */
byte count[PLACES + 1];
byte places; /* none from here on was ever taken */
bool may_sleep; /* one does, or is about to */
byte wakes; /* the rest of that word */

/* Of those who try. */
byte in_vain, freed;
bool thorough;
bool locked;

/* ---- what only the proof knows ------------------------------------------- */

byte by[SLOTS]; /* it was freed by that place, plus one, who did not count */
bool counted[SLOTS]; /* it is free, and was counted */
bool before[SLOTS]; /* and was so when the try began */
bool there[PLACES], dead[PLACES], gone[PLACES];
bool asleep[THREADS];
byte lives = LIVES, deaths = DEATHS;

inline free(fs, who)
{
	slot[fs] = 0;
	by[fs] = who + 1
}

inline take(ts, who)
{
	slot[ts] = who + 1;
	by[ts] = 0;
	counted[ts] = false;
	before[ts] = false
}

/* All slots of that participant that are free by now. */
inline said(who)
{
	for (i : 0 .. SLOTS - 1) {
		if
		:: by[i] == who + 1 -> by[i] = 0; counted[i] = true
		:: else
		fi
	};
	i = 0
}

/* W2 */
inline wake()
{
	d_step {
		if
		:: may_sleep ->
			may_sleep = false;
			wakes++;
			for (i : 0 .. THREADS - 1) {
				asleep[i] = false
			};
			i = 0
		:: else
		fi
	}
}

inline raise_places(who)
{
	d_step {
		if
		:: places < who + 1 -> places = who + 1
		:: else
		fi
	}
}

proctype other(byte me)
{
	byte i, s, turn;

begin:	skip;
end:	atomic { !there[me] && lives > 0 ->
		lives--;
		there[me] = true;
#ifdef RESET_COUNT
		count[me] = 0
#endif
	};
	{
#ifndef LATE_PLACES
	raise_places(me);
#endif
	do
	:: turn < TURNS ->
endtake:	atomic { /* T1, or what the place has in hand */
			if
			:: slot[0] == 0 || slot[0] == me + 1 -> s = 0
#if SLOTS > 1
			:: slot[1] == 0 || slot[1] == me + 1 -> s = 1
#endif
			fi;
			take(s, me)
		};
#ifdef COUNT_FIRST
		count[me] = count[me] + 1;
		atomic { free(s, me); said(me) };
#else
		atomic { free(s, me) }; /* R1 */
#ifndef SILENT
		atomic { count[me] = count[me] + 1; said(me) }; /* R2 */
#endif
#endif
		wake();
		d_step { turn++; s = 0 }
	:: true -> break
	od;
#ifdef LATE_PLACES
	raise_places(me)
#endif
	} unless { dead[me] };
	/* A participant that leaves reaps itself: no difference. */
	atomic { gone[me] = true; turn = 0; s = 0; i = 0 };
	goto begin
}

proctype killer()
{
end:	do
	:: atomic { deaths > 0 && there[0] && !gone[0] && !dead[0] ->
		deaths--; dead[0] = true }
#if PLACES > 1
	:: atomic { deaths > 0 && there[1] && !gone[1] && !dead[1] ->
		deaths--; dead[1] = true }
#endif
	od
}

inline sweep(rs)
{
	atomic {
		if
		:: slot[rs] == who + 1 -> free(rs, who)
		:: else
		fi
	}
}

proctype reaper()
{
	byte who, i;

end:	do
	:: atomic {
		if
		:: gone[0] -> who = 0
#if PLACES > 1
		:: gone[1] -> who = 1
#endif
		fi
	   };
		sweep(0);
#if SLOTS > 1
		sweep(1);
#endif
#ifndef SILENT
		atomic {
#ifndef NO_REAPER
			count[HEAD] = count[HEAD] + 1;
#endif
			said(who)
		};
#endif
		wake();
		atomic { gone[who] = false; dead[who] = false;
			there[who] = false; who = 0 }
	od
}

/* Q1, Q3: head, then each place that was ever taken. */
inline add_up()
{
	d_step {
		for (i : 0 .. SLOTS - 1) { before[i] = counted[i] };
		i = 0;
#ifdef OLD_PLACES
		n = 1
#else
		n = places
#endif
	};
	sum = count[HEAD];
	do
	:: atomic { i < n -> sum = sum + count[i]; i++ }
	:: atomic { i == n -> i = 0; break }
	od;
	skip
}

/* Nothing is looked at. */
inline spare()
{
	d_step {
		for (i : 0 .. SLOTS - 1) { assert(!before[i] || slot[i] != 0) };
		i = 0
	}
}

inline look()
{
	do
	:: atomic { i < SLOTS && slot[i] == 0 ->
		take(i, THEIRS - 1);
		in_vain = 0;
		won = true;
		i = 0;
		break }
	:: atomic { i < SLOTS && slot[i] != 0 -> i++ }
	:: atomic { i == SLOTS -> i = 0;
		in_vain = (in_vain < 2 -> in_vain + 1 : 2);
		break }
	od
}

/* ring_acquire: won, or not. */
inline try()
{
	atomic { !locked -> locked = true; won = false };
	if
	:: in_vain == 0 -> look()
	:: else ->
		add_up();
		if
		:: d_step { thorough -> thorough = false; in_vain = 1;
			freed = sum };
			look()
		:: d_step { !thorough && in_vain > 1 && sum == freed };
			spare()
		:: d_step { !thorough && !(in_vain > 1 && sum == freed) ->
			in_vain = 1; freed = sum };
			look()
		fi;
#ifdef LOOK_FIRST
		skip;
		d_step { sum = 0; n = 0 };
		add_up();
		freed = sum
#endif
	fi;
	skip;
	d_step {
		for (i : 0 .. SLOTS - 1) {
			before[i] = false
		};
		i = 0; sum = 0; n = 0; locked = false
	}
}

proctype thread(byte me)
{
	byte i, n, sum, seen;
	bool won;

again:	try();
	if
	:: won
	:: !won -> goto again
	:: !won ->
		atomic { may_sleep = true; seen = wakes }; /* S1 */
#ifndef NO_THOROUGH
		thorough = true;
#endif
		try(); /* S2 */
		if
		:: won
		:: else ->
			atomic {
				if
				:: wakes == seen -> asleep[me] = true
				:: else
				fi
			};
endsleep:		!asleep[me];
			goto again
		fi
	fi
}

/* No process can continue: a sleeper would sleep for ever. */
proctype quiet()
{
	byte i, s;

end:	atomic {
		timeout ->
		for (i : 0 .. THREADS - 1) {
			for (s : 0 .. SLOTS - 1) {
				assert(!asleep[i] || slot[s] != 0)
			}
		}
	}
}

init {
	atomic {
		byte i;

		for (i : 0 .. SLOTS - 1) {
			slot[i] = 1
		};
		for (i : 0 .. PLACES - 1) {
			run other(i)
		};
		for (i : 0 .. THREADS - 1) {
			run thread(i)
		};
		run killer();
		run reaper();
		run quiet()
	}
}
