/* SPDX-License-Identifier: MIT */
/*
 * The ring of a channel: a participant that is wrongly taken for dead, and
 * those that get its place after it.
 *
 * The idea: a slot's word names a place and a few bits of its participant's
 * generation. The late participant holds a slot and executes the two
 * instructions that give it away, the look at its own word (T3) and the swap of
 * the slot's, and may stop for any time in between. Meanwhile it is reaped, and
 * others join, take the slot, give it back and leave, again and again; nothing
 * is published, so that the position in the slot's word, which would make such
 * words differ, stays as it is. One thing is asserted: the late swap never
 * finds the slot of another.
 *
 * Parameters: PLACES; OTHERS; GENS, the number of generations that a word tells
 * apart; REST, how many must have joined since a place became free before it is
 * taken again; JOINS, how many join at most between the look and the swap. The
 * assertion holds if those are fewer than GENS * (REST + 1). For what may be
 * broken see ring_cooldown.sh.
 */
#ifndef PLACES
#define PLACES 4
#endif
#ifndef REST
#define REST 1
#endif
#ifndef GENS
#define GENS 2
#endif
#ifndef JOINS
#define JOINS (GENS * (REST + 1) - 1)
#endif
#ifndef OTHERS
#define OTHERS 2
#endif
#define LATE 1
#define NOBODY 0

byte who[PLACES]; /* is there: LATE, an other, or nobody */
bool born[PLACES]; /* it was taken before */
byte gen[PLACES]; /* as far as a slot's word tells; late is of 0 */
byte rested[PLACES]; /* so many joined since it became free; REST: or more */
bool marked; /* M1: late's word says that it leaves */
bool looked; /* late has, and not swapped yet */
byte since; /* late's look, have joined */

/* The slot's word: free, or filled by a place's participant of a generation;
 * and, for the proof, which participant. */
#define FREE PLACES
byte slot, life, filler;

#define RESTS(i) (born[i] && rested[i] < REST)

proctype late()
{
	/* In place 0, with the slot. The look: is my word as it was? */
	if
#ifndef NO_LOOK
	:: atomic { who[0] == LATE && !marked -> looked = true; since = 0 }
	:: atomic { !(who[0] == LATE && !marked) -> goto over }
#else
	:: atomic { looked = true; since = 0 }
#endif
	fi;
	/* The swap. */
	atomic {
		if
		:: slot == 0 && life == 0 ->
			assert(filler == LATE);
			slot = FREE; life = 0;
			filler = NOBODY
		:: else
		fi;
		looked = false
	};
over:	skip
}

/* The late one is taken for dead: M1, M2, and its place becomes free. */
proctype reaper()
{
	marked = true;
	atomic {
		if
		:: slot == 0 && filler == LATE ->
			slot = FREE; life = 0;
			filler = NOBODY
		:: else
		fi
	};
	atomic { who[0] = NOBODY; rested[0] = 0 }
}

proctype other(byte me)
{
	byte i, j;

end:	do
	:: atomic { !looked || since < JOINS ->
		i = 0;
		do
		:: i < PLACES && (who[i] != NOBODY || RESTS(i)) -> i++
		:: else -> break
		od;
		if
		:: i < PLACES ->
			who[i] = me;
			gen[i] = (born[i] -> (gen[i] + 1) % GENS : 0);
			born[i] = true;
			for (j : 0 .. PLACES - 1) {
				if
				:: rested[j] < REST -> rested[j]++
				:: else
				fi
			};
			j = 0;
			if
			:: looked -> since++
			:: else
			fi
		:: else -> goto end
		fi
	   };
		if
		:: atomic { slot == FREE ->
				slot = i; life = gen[i]; filler = me };
			atomic {
				assert(slot == i && life == gen[i] &&
					filler == me);
				slot = FREE; life = 0;
				filler = NOBODY
			}
		:: true
		fi;
		atomic { who[i] = NOBODY; rested[i] = 0; i = 0 }
	od
}

init {
	atomic {
		byte i;

		who[0] = LATE;
		born[0] = true;
		slot = 0;
		filler = LATE;
		run late();
		run reaper();
		for (i : 1 .. OTHERS) {
			run other(LATE + i)
		}
	}
}
