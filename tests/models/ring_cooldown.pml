/* SPDX-License-Identifier: MIT */
/*
 * The ring of a channel: one who is wrongly taken for dead, and those who get
 * his place after him.
 *
 * The idea: a slot's word names a place and, of who is in it, a few bits of the
 * generation only. Late holds a slot and goes through the two instructions that
 * give it away, the look at his own word (T3) and the swap of the slot's, and
 * may stop for any time in between. Meanwhile he is reaped, and others join,
 * take the slot, give it back and leave, again and again; nothing is published,
 * so that the position in the slot's word, which tells such words apart else,
 * stays as it is. One thing is asserted: his swap never finds the slot of
 * another.
 *
 * What may be set from outside: PLACES; OTHERS; GENS, so many generations are
 * told apart; REST, how many must have joined since a place became free before
 * it is taken again; JOINS, how many do at most between the look and the swap.
 * It holds where those are fewer than GENS * (REST + 1). What may be broken:
 * see ring_cooldown.sh.
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
bool marked; /* M1: late's word says that he leaves */
bool looked; /* late has, and not swapped yet */
byte since; /* his look, have joined */

/* The slot's word: free, or filled by who is in a place, of a generation; and,
 * for the proof, by whom. */
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

/* He is taken for dead: M1, M2, and the place becomes free. */
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
