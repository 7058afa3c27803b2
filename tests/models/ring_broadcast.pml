/* SPDX-License-Identifier: MIT */
/*
 * The ring of a channel, broadcast mode, and how it is closed: publish, finish
 * (B1, B2), receive, join, leave (L1, L2), a place that is taken again, deaths
 * at any step, the end.
 *
 * The idea: as in ring.pml, each step reads or writes one shared word, but for
 * those between which nobody can tell the difference:
 *
 *	- a slot's word and its pending before B1: an older tag has no bits left
 *	  (asserted), so of pending only the tag counts, and that only rises;
 *	- B1 and the look at what it left: bits of this tag are only cleared from
 *	  there on, and clearing one twice is clearing it once;
 *	- that no bit is left, and the slot that becomes free: once both words
 *	  say so, they do until it is offered again.
 *
 * Consumer 0 is there from the beginning to the end. Place 1 is taken by LIVES
 * consumers one after the other, who join at any time, and leave at the end or
 * by death. Leaving is being reaped by oneself, so the reaper does both.
 *
 *	- what was published after a consumer had joined, it receives once, in
 *	  order, and what it hears before that is without a gap (missed);
 *	- what it receives is what was published there, and stays so in its
 *	  hands (in consumer);
 *	- a slot that a consumer reads, or has still to, is not filled again
 *	  (in take, and at B1);
 *	- nothing is published behind the end, nothing before it is lost;
 *	- when all is quiet, living consumers have come to the end, and each
 *	  slot is free or will be found free by the next producer.
 *
 * From outside: PRODUCERS with ITEMS each, SLOTS, LIVES, DEATHS (of place 1 and
 * of producer 0). What may be broken, to see it found: see ring.sh.
 */
#ifndef PRODUCERS
#define PRODUCERS 1
#endif
#ifndef ITEMS
#define ITEMS 2
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef LIVES
#define LIVES 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifdef ORDER_SHORT
#define ORDER SLOTS
#else
#define ORDER (SLOTS + 1) /* the end has a place too */
#endif
#define CLOSED SLOTS

#define FREE 0
#define FILLING 1
#define OFFERED 2

byte state[SLOTS], owner[SLOTS], at[SLOTS];
byte tag[SLOTS], bits[SLOTS];	/* pending, one word */
byte placed[ORDER], whose[ORDER], which[ORDER];
byte tail = ORDER;
bool live;			/* the word of place 1 says LIVE */
byte start;

/* ---- what only the proof knows ------------------------------------------- */

byte item[SLOTS];		/* its bytes */
byte published[ORDER + PRODUCERS * ITEMS + 1];
byte next = ORDER;		/* the first position that has nothing */
byte closed_at;
byte hold[2];			/* the slot that it reads, plus one */
bool ended[2];
bool dead, dead1;		/* producer 0, and who has place 1 */
bool gone, gone1;		/* and it does nothing any more */
bool taken;			/* place 1 */
byte lives = LIVES, deaths = DEATHS;

#define IS(s, o, p) (state[s] == OFFERED && owner[s] == (o) && at[s] == (p))

/* ring_free_seen */
inline free_seen(fs, fo, fp)
{
	d_step {
		if
		:: tag[fs] == fp && bits[fs] == 0 && IS(fs, fo, fp) ->
			state[fs] = FREE; owner[fs] = 0
		:: else
		fi
	}
}

/* is_for place 1: its word, and then its start. */
inline look(lp)
{
	if
	:: live -> here = (start <= lp)
	:: !live -> here = false
	fi
}

inline clear_bit(cs, cp, mask)
{
	d_step {
		if
		:: tag[cs] == cp -> bits[cs] = bits[cs] & (3 - mask)
		:: else
		fi
	}
}

/* ring_finish: what stands at fp, slot fs of fo. */
inline finish(fs, fo, fp)
{
	if
	:: atomic { IS(fs, fo, fp) -> was = tag[fs] };
		if
		:: was != fp -> /* B1 */
			look(fp);
			d_step {
				if
				:: tag[fs] == was ->
					assert(bits[fs] == 0);
					tag[fs] = fp;
					bits[fs] = (here -> 3 : 1)
				:: else
				fi;
				now = (tag[fs] == fp && (bits[fs] & 2) != 0);
				was = 0; here = false
			}
		:: was == fp ->
			d_step { now = (tag[fs] == fp && (bits[fs] & 2) != 0);
				was = 0 }
		fi;
#ifndef NO_B2
		if
		:: now ->
			look(fp);
			if
			:: !here -> clear_bit(fs, fp, 2)
			:: here
			fi
		:: !now
		fi;
#endif
		atomic { now = false; here = false; free_seen(fs, fo, fp) }
	:: atomic { !IS(fs, fo, fp) }
	fi
}

inline raise(rp)
{
	if
	:: tail < rp -> tail = rp
	:: else
	fi
}

#define ENTRY(p) placed[(p) % ORDER]
#define IS_END(p) (ENTRY(p) == (p) && which[(p) % ORDER] == CLOSED)
#define IS_ITEM(p) (ENTRY(p) == (p) && which[(p) % ORDER] != CLOSED)

/* look_at: leaves p at the first that was not placed, or at the end. */
inline find_end()
{
	do
	:: atomic { IS_ITEM(p) -> o = whose[p % ORDER]; s = which[p % ORDER] };
		finish(s, o, p);
		d_step { p++; s = 0; o = 0; raise(p) }
	:: atomic { ENTRY(p) > p -> p = tail }
	:: atomic { ENTRY(p) < p || IS_END(p) -> break }
	od
}

/* T1 */
inline take(ts)
{
	assert(hold[0] != ts + 1 && hold[1] != ts + 1);
	mine = ts; c = at[ts];
	state[ts] = FILLING; owner[ts] = me;
	item[ts] = me * ITEMS + n + 1
}

#define HAS(s, p) (tag[s] == (p) && (bits[s] & (1 << me)))
#define FREE_UNSAID(s) (state[s] == OFFERED && tag[s] == at[s] && bits[s] == 0)
/* Placed, and perhaps without consumers: a producer's search frees it. */
#define UNFINISHED(s) (state[s] == OFFERED && tag[s] != at[s])

proctype producer(byte me)
{
	byte n, s, p, c, o, mine, was, end_;
	bool here, now;

	{
	do
	:: n < ITEMS && closed_at == 0 ->
		do
		:: atomic { state[0] == FREE -> take(0); break }
		:: d_step { FREE_UNSAID(0) -> state[0] = FREE; owner[0] = 0 }
		:: atomic { UNFINISHED(0) -> p = tail }; find_end(); p = 0
#if SLOTS > 1
		:: atomic { state[1] == FREE -> take(1); break }
		:: d_step { FREE_UNSAID(1) -> state[1] = FREE; owner[1] = 0 }
		:: atomic { UNFINISHED(1) -> p = tail }; find_end(); p = 0
#endif
		od;
		p = (end_ > tail -> end_ : tail);
again:		find_end();
		if
		:: atomic { IS_END(p) ->
			state[mine] = FREE; at[mine] = c; owner[mine] = 0;
			p = 0; c = 0; mine = 0;
			break }
		:: atomic { ENTRY(p) < p ->
			assert(p > c && state[mine] != FREE &&
				owner[mine] == me);
			state[mine] = OFFERED; at[mine] = p }
		:: atomic { else -> goto again }
		fi;
		if
		:: atomic { ENTRY(p) < p -> /* the moment of publication */
			assert(closed_at == 0);
			ENTRY(p) = p;
			whose[p % ORDER] = me;
			which[p % ORDER] = mine;
			published[p] = item[mine];
			next = p + 1 }
		:: atomic { else -> goto again }
		fi;
		finish(mine, me, p);
		d_step { /* tail may be raised, or not yet */
			n++; end_ = p + 1; p = 0; c = 0; mine = 0
		};
		if
		:: d_step { raise(end_) }
		/* Never by so much that it is a lap behind. */
		:: tail + ORDER > end_ + 1
		fi
	:: else -> break
	od
	} unless { me == 0 && dead };
	atomic { n = 0; s = 0; p = 0; c = 0; o = 0; mine = 0; was = 0; end_ = 0;
		here = false; now = false };
	gone = gone || (me == 0)
}

/* It goes past at_, and that was not for it. */
inline pass(to)
{
	assert(at_ < must && !heard); /* else it has missed it */
	at_ = to
}

proctype consumer(byte me)
{
	byte s, p, o, at_, was, must;
	bool here, now, heard;

	{
	skip;
endjoin:
	if
	:: atomic { me == 0 -> at_ = ORDER; must = ORDER }
	:: atomic { me == 1 && !taken && lives > 0 ->
		lives--; taken = true; ended[1] = false; p = tail };
#ifndef JOIN_AT_TAIL
		find_end();
#endif
		start = p;
		atomic { live = true; at_ = p; must = next; p = 0 }
	fi;
end:	do
	:: atomic { IS_END(at_) -> ended[me] = true; break }
	:: atomic { IS_ITEM(at_) ->
			o = whose[at_ % ORDER]; s = which[at_ % ORDER] };
		finish(s, o, at_);
		if
		:: atomic { HAS(s, at_) && IS(s, o, at_) ->
			heard = true;
			hold[me] = s + 1;
			assert(item[s] == published[at_]) };
			atomic { /* it has read */
				assert(HAS(s, at_) &&
					item[s] == published[at_]);
				hold[me] = 0;
				clear_bit(s, at_, (1 << me)) };
			atomic { free_seen(s, o, at_); at_++; s = 0; o = 0 }
		:: atomic { !(HAS(s, at_) && IS(s, o, at_)) ->
			pass(at_ + 1); s = 0; o = 0 }
		fi
	:: atomic { ENTRY(at_) > at_ ->
		pass((tail > at_ + 1 + ORDER -> tail - ORDER : at_ + 1)) }
	od
	} unless { atomic { me == 1 && dead1 -> dead1 = false } };
	atomic { s = 0; p = 0; o = 0; at_ = 0; was = 0; must = 0;
		here = false; now = false; heard = false;
		if
		:: me == 1 -> gone1 = true; goto endjoin
		:: else
		fi
	}
}

/* Reaping of those that left, and of the dead: L1, then L2 slot by slot. */
proctype reaper()
{
	byte s, p, o, was, n;
	bool here, now;

end:	do
	:: atomic { deaths > 0 && taken && !gone1 && !dead1 && !ended[1] ->
		deaths--; dead1 = true; hold[1] = 0 }
	:: atomic { gone1 -> live = false; gone1 = false; n = 0 }; /* L1 */
		do
		:: atomic { n < SLOTS ->
			p = (state[n] == OFFERED -> at[n] : 0); o = owner[n] };
#ifndef NO_L2
			if
			:: atomic { p != 0 -> clear_bit(n, p, 2) };
				free_seen(n, o, p)
			:: p == 0
			fi;
#endif
			d_step { n++; p = 0; o = 0 }
		:: atomic { n == SLOTS ->
			n = 0; taken = false; break }
		od
#ifdef PRODUCERS_DIE
	:: atomic { deaths > 0 && !gone -> deaths--; dead = true };
		gone;
		do
		:: atomic { n < SLOTS && owner[n] == 0 &&
				state[n] == FILLING ->
			state[n] = FREE; n++ }
		:: atomic { n < SLOTS && owner[n] == 0 &&
				state[n] == OFFERED -> p = at[n] };
			if
			:: atomic { ENTRY(p) == p && whose[p % ORDER] == 0 &&
				which[p % ORDER] == n };
				finish(n, 0, p)
			:: atomic { else ->
				if /* the entry is gone, the item is not */
				:: tag[n] != p && IS(n, 0, p) ->
					state[n] = FREE; at[n] = p - 1
				:: else
				fi }
			fi;
			d_step { n++; p = 0 }
		:: atomic { n < SLOTS && (owner[n] != 0 || state[n] == FREE) ->
			n++ }
		:: atomic { n == SLOTS -> n = 0; break }
		od
#endif
	od
}

/* ring_close, by somebody, at any time or when all was published. */
proctype closer()
{
	byte s, p, o, was;
	bool here, now;

#ifdef CLOSE_LAST
	next == ORDER + PRODUCERS * ITEMS;
#endif
	p = tail;
again:	find_end();
	if
	:: d_step { ENTRY(p) < p ->
		ENTRY(p) = p; which[p % ORDER] = CLOSED; closed_at = p }
	:: atomic { else -> goto again }
	fi;
	p = 0
}

/* Nothing can go on: what is so now is so for ever. */
proctype quiet()
{
	byte i;

end:	atomic {
		timeout ->
		for (i : 0 .. SLOTS - 1) {
			assert(state[i] == FREE || FREE_UNSAID(i))
		};
		assert(closed_at == next && ended[0] && !dead1)
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
		run consumer(0);
		run consumer(1);
		run reaper();
		run closer();
		run quiet()
	}
}
