/* SPDX-License-Identifier: MIT */
/*
 * A storage that is handed over to an item of a channel, and from it.
 *
 * The idea: what shm/channel.h argues in prose, for every interleaving of a
 * producer, some consumers and a server that searches for leases, with store
 * buffers as in lease.pml: a store waits, one entry for each location, until it
 * drains at a time of nobody's choosing; a fence or a compare-and-swap drains
 * all that its process has stored.
 *
 * There is one storage, which has no name and which the producer holds at
 * first, and one slot. The first item keeps the storage, the second nothing.
 * How a ring itself passes slots on is ring.pml's; here each of its transitions
 * is one step. Asserted is:
 *
 *	- when the server frees the storage, nobody has it (in free_it): not the
 *	  producer, not an item, not a consumer that received it;
 *	- a consumer of the item gets a lease on what it keeps (at A3);
 *	- when all is quiet and nobody has it, it is free (in quiet).
 *
 * What may be set from outside: CONSUMERS, CRASHES of the server, DEATHS of
 * the others. What may be broken: see channel.sh.
 */
#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef ITEMS
#define ITEMS 2
#endif
/* The producer is 0, consumers are 1 and 2. */
#define USERS (CONSUMERS + 1)

/* enum storage_state; it is made once */
#define FREE 0
#define UNNAMED 1
#define FREEING 2

/* enum slot_state; RETURNED is OFFERED once more */
#define EMPTY 0
#define FILLING 1
#define OFFERED 2
#define READING 3

/* ---- memory: what all see, and what is on its way there ------------------ */

byte word = UNNAMED, own = UNNAMED; /* own: as the server stored it last */
bool word_late;
bool lease[USERS], lease_next[USERS], lease_late[USERS];
bool held, held_next, held_late; /* the producer's store */
byte slot = EMPTY, reader;	 /* changed by compare-and-swap alone */

inline drain_word()
{
	d_step { word = own; word_late = false }
}

inline drain_lease(u)
{
	if
	:: lease_late[u] ->
		lease[u] = lease_next[u];
		lease_next[u] = false;
		lease_late[u] = false
	:: else
	fi
}

inline drain_held()
{
	if
	:: held_late -> held = held_next; held_next = false; held_late = false
	:: else
	fi
}

/* All that this user has stored. */
inline fence(u)
{
	drain_lease(u);
	if
	:: (u) == 0 -> drain_held()
	:: else
	fi
}

inline fence_now(u)
{
	atomic { fence(u) }
}

inline store_lease(u, v)
{
	lease_next[u] = v; lease_late[u] = true
}

active proctype memory()
{
end:	do
	:: atomic { word_late -> drain_word() }
	:: atomic { held_late -> drain_held() }
	:: atomic { lease_late[0] -> drain_lease(0) }
	:: atomic { lease_late[1] -> drain_lease(1) }
#if CONSUMERS > 1
	:: atomic { lease_late[2] -> drain_lease(2) }
#endif
	od
}

/* ---- what only the proof knows --------------------------------------------- */

byte users = 1;	     /* who has it: the producer, an item, consumers */
bool has[USERS];     /* of these, by its own lease */
bool keeps;	     /* the item in the slot keeps it */
bool done[USERS];    /* it ended, or died */
bool dead[USERS];    /* it died, or is about to */
byte deaths = DEATHS, crashes = CRASHES;
byte published, received;

/* ---- users ------------------------------------------------------------------ */

chan socket[USERS] = [3] of {bit};
#define BELL 1

/* As in lease.h: after a release, is anybody else to look again? */
inline ring_if_need_be(u)
{
	atomic {
		if
		:: word == UNNAMED || word == FREEING -> socket[u]!BELL
		:: else
		fi
	}
}

/* The store may be seen before others of its process, or after them. */
inline let_go(u)
{
	atomic { has[u] = false; users--; store_lease(u, false) };
	fence_now(u);
	ring_if_need_be(u)
}

inline end_of(u)
{
	atomic {
		if
		:: has[u] -> has[u] = false; users--
		:: else
		fi;
		done[u] = true
	}
}

#if CONSUMERS > 1
#define NOBODY_READS (done[1] && done[2])
#else
#define NOBODY_READS done[1]
#endif

proctype producer()
{
	{
	do
	:: atomic {
		published < ITEMS && slot == EMPTY ->
		fence(0);
		slot = FILLING
	   };
	   /* What stood there before counts from now on. */
	   if
	   :: atomic { held -> held_next = false; held_late = true; fence(0) };
#ifndef NO_BELL_OF_CLEARED
	      ring_if_need_be(0)
#endif
	   :: !held
	   fi;
	   if
	   :: atomic { published == 0 && has[0] ->
		held_next = true; /* P1 */
		held_late = true;
#ifndef NO_PUT_FENCE
		fence(0) /* P2 */
#endif
	      };
	      atomic {
#ifndef NO_CHECK_OF_PUT
		word == UNNAMED -> /* P3: FREEING: it waits */
#endif
		keeps = true;
		users++
	      };
	      let_go(0)
	   :: published > 0
	   fi;
	   atomic { fence(0); slot = OFFERED; published++ }
	:: atomic { published == ITEMS || NOBODY_READS -> break }
	od;
	/* Nobody took the first. */
	if
	:: has[0] -> let_go(0)
	:: else
	fi
	} unless {
		atomic {
			dead[0] ->
			fence(0);
			/* What was being filled keeps nothing. */
			if
			:: keeps && slot == FILLING -> keeps = false; users--
			:: else
			fi
		}
	};
	end_of(0)
}

inline give_slot_back(c)
{
	atomic {
		fence(c);
		slot = EMPTY;
		reader = 0;
		received++;
		if
		:: keeps -> keeps = false; users--
		:: else
		fi
	}
}

proctype consumer(byte c)
{
	bool kept;

	{
	do
	:: atomic {
		slot == OFFERED ->
		slot = READING;
		reader = c;
		kept = held
	   };
	   if
	   :: kept ->
#ifdef SLOT_BACK_BEFORE_TAKEN
		give_slot_back(c);
#endif
take:		atomic {
			store_lease(c, true); /* A1 */
#ifndef NO_TAKE_FENCE
			fence(c)	      /* A2 */
#endif
		};
		/* A3 */
		if
		:: atomic { word == UNNAMED -> has[c] = true; users++ }
		:: word == FREEING ->
			atomic { store_lease(c, false) };
			goto take
		:: word == FREE -> assert(word != FREE)
		fi;
#ifndef SLOT_BACK_BEFORE_TAKEN
		give_slot_back(c);
#endif
		let_go(c)
	   :: !kept -> give_slot_back(c)
	   fi
	:: received == ITEMS || (done[0] && slot == EMPTY) -> break
	od
	} unless {
		atomic { dead[c] -> fence(c) }
	};
	end_of(c)
}

/* ---- the server ---------------------------------------------------------------- */

bool gone;	     /* to be looked for */
bool found;	     /* in the search under way */
bool buried[USERS];  /* its end was seen: its page counts no more */
bool left;	     /* participants are to be compared with connections */
bool crash;

inline look(u)
{
	atomic {
		if
		:: !buried[u] && lease[u] -> found = true
		:: else
		fi
	}
}

inline look_at_pages()
{
	look(0);
	look(1);
#if CONSUMERS > 1
	look(2);
#endif
}

/* The slot's word, then its held word. */
inline look_at_slot()
{
#ifndef NO_LOOK_AT_ITEMS
	if
	:: slot != EMPTY ->
		atomic {
			if
			:: held -> found = true
			:: else
			fi
		}
	:: slot == EMPTY
	fi
#else
	skip
#endif
}

inline free_it()
{
	atomic {
		assert(users == 0);
		own = FREE;
		word_late = true;
		gone = false
	}
}

inline search()
{
	atomic { own = FREEING; word_late = true }; /* F1 */
#ifndef NO_FREE_FENCE
	drain_word(); /* F2 */
#endif
	/* F3: in whatever order; the argument does not lean on one. */
	if
	:: look_at_pages(); look_at_slot()
	:: look_at_slot(); look_at_pages()
	fi;
	if
	:: found ->
		atomic {
			own = UNNAMED;
			word_late = true;
			found = false;
			gone = false
		}
	:: !found -> free_it()
	fi
}

/* What the dead held, then once more what only leases hold. */
inline reap_dead()
{
	atomic {
		left = false;
		if
		:: slot == FILLING && buried[0] -> slot = EMPTY
		:: slot == READING && buried[reader] ->
			slot = OFFERED;
			reader = 0
		:: else
		fi
	};
#ifndef NO_LOOK_AFTER_REAP
	atomic {
		if
		:: own == UNNAMED -> gone = true
		:: else
		fi
	}
#endif
}

inline bury(u)
{
	atomic {
		done[u] && dead[u] && !buried[u] && empty(socket[u]) ->
		buried[u] = true;
		left = true
	}
}

inline receive_note(u)
{
	atomic {
		socket[u]?BELL ->
		if
		:: own == UNNAMED -> gone = true
		:: else
		fi
	}
}

#define SETTLED(u) \
	(done[u] && empty(socket[u]) && dead[u] == buried[u])

inline quiet()
{
	atomic {
		SETTLED(0) && SETTLED(1) &&
#if CONSUMERS > 1
		SETTLED(2) &&
#endif
		!gone && !left && !crash ->
		assert(users > 0 || own == FREE)
	}
}

active proctype server()
{
	atomic {
		lease[0] = true;
		has[0] = true;
		run producer();
		run consumer(1);
#if CONSUMERS > 1
		run consumer(2);
#endif
		gone = true
	};
begin:	skip;
	{
end:	do
	:: receive_note(0)
	:: receive_note(1)
	:: bury(0)
	:: bury(1)
#if CONSUMERS > 1
	:: receive_note(2)
	:: bury(2)
#endif
	:: atomic { left -> skip }; reap_dead()
	:: atomic { gone && !left -> skip }; search()
	:: quiet() -> break
	od
	} unless {
		/* The next one takes over what the table says. */
		atomic {
			crash ->
			drain_word();
			crash = false;
			found = false;
			left = true;
			gone = word != FREE;
			goto begin
		}
	}
}

/* kill -9 of any process, at any time. */
active proctype reaper()
{
end:	do
	:: atomic { crashes > 0 && !crash -> crashes--; crash = true }
	:: atomic { deaths > 0 && !done[0] -> deaths--; dead[0] = true }
	:: atomic { deaths > 0 && !done[1] -> deaths--; dead[1] = true }
	od
}
