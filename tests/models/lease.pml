/* SPDX-License-Identifier: MIT */
/*
 * Leases: acquire, release, hand-over, freeing in batches, deaths, crashes.
 *
 * The idea: what shm/lease.h argues in prose, for every interleaving of a
 * server and some clients on a machine with store buffers. A store waits in a
 * buffer, one entry for each location, until it drains at a time of nobody's
 * choosing, in any order; a fence drains all that its process has stored. So
 * there are more behaviours than x86 has (there they drain in order) and a
 * fence that is left out shows.
 *
 * Steps bear the names that shm/lease.h gives them (A1 to A3, F1 to F3). Each
 * reads or writes one shared word. Three things are asserted:
 *
 *	- when the server frees a storage, nobody uses it (in free_it);
 *	- a client that gets a lease gets what the name led to (at A3);
 *	- when all is quiet, what has no name and no user is free (in quiet).
 *
 * What may be set from outside: STORAGES, CLIENTS, each with OPS operations
 * and two lease pages of one slot; CRASHES of the server, DEATHS of clients;
 * GENERATIONS of each storage. What may be broken, to see it found: see
 * lease_broken.sh.
 */
#ifndef STORAGES
#define STORAGES 1
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef GENERATIONS
#define GENERATIONS 2
#endif
#define PAGES 2
#define SLOTS (CLIENTS * PAGES)

/* enum storage_state; FILLING takes part as LIVE does */
#define FREE 0
#define LIVE 1
#define UNNAMED 2
#define FREEING 3

/* A storage's word: generation << 2 | state; never 0. */
#define WORD(g, st) ((g) << 2 | (st))
#define STATE(w) ((w) & 3)
#define GENERATION(w) ((w) >> 2)
/* A lease: index and generation as one number; 0: an empty slot. */
#define LEASE(s, g) ((g) * STORAGES + (s) + 1)

/* ---- memory: what all see, and what is on its way there ------------------ */

byte word[STORAGES], own[STORAGES]; /* own: as the server stored it last */
bool word_late[STORAGES];
byte slot[SLOTS], slot_next[SLOTS];
bool slot_late[SLOTS];
byte name[STORAGES]; /* the generation that the name leads to; 0: none */

inline store_word(s, w)
{
	d_step { own[s] = w; word_late[s] = true }
}

inline store_slot(i, w)
{
	d_step { slot_next[i] = w; slot_late[i] = true }
}

inline drain_word(s)
{
	if
	:: word_late[s] ->
		word[s] = own[s];
		word_late[s] = false
	:: else
	fi
}

inline drain_slot(i)
{
	if
	:: slot_late[i] ->
		slot[i] = slot_next[i];
		slot_next[i] = 0;
		slot_late[i] = false
	:: else
	fi
}

inline server_fence(n)
{
	d_step {
		n = 0;
		do
		:: n < STORAGES -> drain_word(n); n++
		:: else -> break
		od;
		n = 0
	}
}

inline client_fence(c)
{
	d_step {
		drain_slot((c) * PAGES);
		drain_slot((c) * PAGES + 1)
	}
}

/* Buffers drain by themselves. */
active proctype memory()
{
	byte i;

end:	do
	:: atomic { word_late[0] -> drain_word(0) }
#if STORAGES > 1
	:: atomic { word_late[1] -> drain_word(1) }
#endif
	:: atomic { slot_late[0] -> drain_slot(0) }
	:: atomic { slot_late[1] -> drain_slot(1) }
#if CLIENTS > 1
	:: atomic { slot_late[2] -> drain_slot(2) }
	:: atomic { slot_late[3] -> drain_slot(3) }
#endif
	od
}

/* ---- what only the proof knows --------------------------------------------- */

byte users[STORAGES];   /* who may read the bytes just now */
byte made[STORAGES];	/* how often it was made */
byte use[SLOTS];	/* what a client holds and reads there; 0 */
bool done[CLIENTS];	/* it ended, or died */
bool dead[CLIENTS];	/* it died, or is about to; the socket tells */
byte deaths = DEATHS, crashes = CRASHES;

/* ---- clients ----------------------------------------------------------------- */

/* WIRE_RELEASED, and the wish to name again what is held. The sockets are the
 * keeper's too: what lies in them outlives a server. */
#define RING 0
#define NAME 1
chan socket[CLIENTS] = [3] of {bit, byte, byte};

/*
 * A store and the fence behind it are one step: nothing is read between them,
 * so what others do there they might as well do before the store or, when it
 * drains early, after the fence.
 */
inline install(c, i, s, g)
{
	atomic {
		store_slot(i, LEASE(s, g)); /* A1 */
#ifndef NO_ACQUIRE_FENCE
		client_fence(c)		    /* A2 */
#endif
	}
}

#define USABLE(w, g) \
	(GENERATION(w) == (g) && (STATE(w) == LIVE || STATE(w) == UNNAMED))

/* Clear, fence, read the word, and ring if nobody else will. */
inline let_go(c, i, s, g)
{
	atomic {
		store_slot(i, 0);
#ifndef NO_RELEASE_FENCE
		client_fence(c)
#endif
	};
#ifndef NO_BELL
	atomic {
		if
		:: GENERATION(word[s]) == g &&
			(STATE(word[s]) == UNNAMED ||
				STATE(word[s]) == FREEING) ->
			socket[c]!RING, s, g
		:: else
		fi
	}
#endif
}

proctype client(byte c)
{
	byte ops = OPS, s, g, i, j, m;

	{
	do
	/* Look a name up and take a lease on what it leads to; in between
	 * anything may happen. */
	:: atomic {
		ops > 0 && (!use[c * PAGES] || !use[c * PAGES + 1]) ->
		ops--;
		/* The page that the scan reads last, so that a hand-over may
		 * run against it. */
		i = c * PAGES + (use[c * PAGES + 1] -> 0 : 1);
#if STORAGES > 1
		if
		:: s = 0
		:: s = 1
		fi;
#else
		s = 0;
#endif
		g = name[s];
		m = made[s];
		if
		:: g == 0 -> goto again
		:: else
		fi
	   };
take:	   install(c, i, s, g);
	   if
	   :: atomic { USABLE(word[s], g) -> /* A3 */
		assert(made[s] == m);
		use[i] = LEASE(s, g);
		users[s]++
	      }
	   :: atomic { word[s] == WORD(g, FREEING) ->
		if
		:: store_slot(i, 0); goto take
		:: skip /* no longer */
		fi
	      };
#ifdef NO_BELL_OF_REFUSED
	      store_slot(i, 0)
#else
	      let_go(c, i, s, g)
#endif
	   :: atomic { GENERATION(word[s]) != g || STATE(word[s]) == FREE ->
		store_slot(i, 0)
	      }
	   fi
	/* Release one. */
	:: atomic {
		if
		:: use[c * PAGES] -> i = c * PAGES
		:: use[c * PAGES + 1] -> i = c * PAGES + 1
		fi;
		s = (use[i] - 1) % STORAGES;
		g = (use[i] - 1) / STORAGES;
		use[i] = 0;
		users[s]--
	   };
	   let_go(c, i, s, g)
	/* Hand one over to the other page. */
	:: atomic {
		ops > 0 && ((use[c * PAGES] > 0) != (use[c * PAGES + 1] > 0)) ->
		ops--;
		i = c * PAGES + (use[c * PAGES] -> 0 : 1);
		j = c * PAGES + (use[c * PAGES] -> 1 : 0);
		s = (use[i] - 1) % STORAGES;
		g = (use[i] - 1) / STORAGES
	   };
#ifdef DROP_BEFORE_INSTALL
	   atomic { store_slot(i, 0); use[i] = 0; use[j] = LEASE(s, g) };
	   install(c, j, s, g);
	   client_fence(c)
#else
move:	   install(c, j, s, g);
	   if
	   :: atomic {
#ifndef NO_CHECK_AT_HAND_OVER
		USABLE(word[s], g) ->
#endif
		use[j] = LEASE(s, g);
		use[i] = 0
	      };
	      let_go(c, i, s, g)
#ifndef NO_CHECK_AT_HAND_OVER
	   :: atomic { !USABLE(word[s], g) ->
		/* The old one stands, so it is being looked for. */
		assert(word[s] == WORD(g, FREEING));
		store_slot(j, 0);
		if
		:: goto move
		:: skip /* the old one is kept */
		fi
	      }
#endif
	   fi
#endif
	/* Name again what is held. */
	:: atomic {
		ops > 0 && nfull(socket[c]) ->
		ops--;
		if
		:: use[c * PAGES] -> i = c * PAGES
		:: use[c * PAGES + 1] -> i = c * PAGES + 1
		:: else -> goto again
		fi;
		socket[c]!NAME, (use[i] - 1) % STORAGES,
			(use[i] - 1) / STORAGES
	   }
	:: atomic {
		!use[c * PAGES] && !use[c * PAGES + 1] ->
		break
	   };
again:	   skip
	od
	} unless {
		/* Killed: what it has stored arrives, it reads no more. */
		atomic { dead[c] -> client_fence(c) }
	};
	atomic {
		for (i : 0 .. PAGES - 1) {
			if
			:: use[c * PAGES + i] ->
				users[(use[c * PAGES + i] - 1) % STORAGES]--;
				use[c * PAGES + i] = 0
			:: else
			fi
		};
		done[c] = true
	}
}

/* ---- the server ------------------------------------------------------------------- */

bool gone[STORAGES];	/* to be looked for (storages.let_go) */
bool found[STORAGES];   /* in the scan under way */
bool buried[CLIENTS];   /* its end was seen: its pages count no more */
bool crash;

/* All that a server knows beyond the table, for the next one. */
inline rebuild(s)
{
	atomic {
		crash = false;
		for (s : 0 .. STORAGES - 1) {
			found[s] = false;
			gone[s] = false;
			if
			:: STATE(word[s]) == FREE
			:: else ->
				if
				:: name[s] == GENERATION(word[s]) ->
					store_word(s, WORD(name[s], LIVE))
#ifdef NO_RESCAN
				:: else
#elif defined(NO_RESCAN_OF_UNNAMED)
				:: else ->
					gone[s] = STATE(word[s]) != UNNAMED
#else
				:: else -> gone[s] = true
#endif
				fi
			fi
		};
		s = 0
	}
}

inline free_it(s)
{
	atomic {
		assert(users[s] == 0);
#ifdef NO_GENERATION
		store_word(s, WORD(GENERATION(own[s]), FREE));
#else
		store_word(s, WORD(GENERATION(own[s]) + 1, FREE));
#endif
		gone[s] = false
	}
}

/* One slot of the scan. */
inline look(c, p)
{
	d_step {
		if
		:: !buried[c] && slot[(c) * PAGES + p] ->
			n = (slot[(c) * PAGES + p] - 1) % STORAGES;
			if
			:: gone[n] && slot[(c) * PAGES + p] ==
					LEASE(n, GENERATION(own[n])) ->
				found[n] = true
			:: else
			fi;
			n = 0
		:: else
		fi
	}
}

inline settle(s)
{
	if
	:: gone[s] && found[s] ->
		atomic {
			store_word(s, WORD(GENERATION(own[s]), UNNAMED));
			found[s] = false;
			gone[s] = false
		}
	:: gone[s] && !found[s] -> free_it(s)
	:: else
	fi
}

/* Everything that was let go, in one pass. */
inline reap()
{
	d_step { /* F1: the stores arrive one by one anyhow */
		for (n : 0 .. STORAGES - 1) {
			if
			:: gone[n] ->
				store_word(n, WORD(GENERATION(own[n]), FREEING))
			:: else
			fi
		};
		n = 0
	};
#ifndef NO_FREE_FENCE
	server_fence(n); /* F2 */
#endif
	look(0, 0); /* F3 */
#ifndef FORGET_PAGE
	look(0, 1);
#endif
#if CLIENTS > 1
	look(1, 0);
	look(1, 1);
#endif
	settle(0);
#if STORAGES > 1
	settle(1);
#endif
}

/* Made, then named by a commit, which is a release store. */
inline make(s)
{
	atomic {
		STATE(own[s]) == FREE && made[s] < GENERATIONS ->
		made[s]++;
		store_word(s, WORD(GENERATION(own[s]), LIVE))
	};
	atomic { !word_late[s] -> name[s] = GENERATION(own[s]) }
}

inline unname(s)
{
	atomic { name[s] -> name[s] = 0 };
	atomic {
		store_word(s, WORD(GENERATION(own[s]), UNNAMED));
		gone[s] = true
	}
}

inline receive_note(c)
{
	atomic {
		socket[c]?what, s, g;
		if
		:: what == RING && own[s] == WORD(g, UNNAMED) ->
			gone[s] = true
		/* SOURCE_EXISTING: only what lies in its own pages. */
		:: what == NAME && GENERATION(own[s]) == g &&
			STATE(own[s]) != FREE && STATE(own[s]) != FREEING &&
			(slot[c * PAGES] == LEASE(s, g) ||
				slot[c * PAGES + 1] == LEASE(s, g)) ->
			gone[s] = false;
			store_word(s, WORD(g, LIVE))
		:: else -> what = RING
		fi
	};
	if
	:: atomic { what == NAME && !word_late[s] -> name[s] = g }
	:: what == RING
	fi;
	atomic { what = RING; s = 0; g = 0 }
}

/* The end of a connection is read after all that was sent on it. */
inline bury(c)
{
	atomic {
#ifdef BURY_EARLY
		dead[c] && !buried[c] && empty(socket[c]) ->
#else
		done[c] && dead[c] && !buried[c] && empty(socket[c]) ->
#endif
		buried[c] = true;
#ifndef NO_SWEEP
		for (n : 0 .. STORAGES - 1) {
			if
			:: STATE(own[n]) == UNNAMED -> gone[n] = true
			:: else
			fi
		};
#endif
		n = 0
	}
}

#if STORAGES > 1
#define ANY_GONE (gone[0] || gone[1])
#else
#define ANY_GONE gone[0]
#endif
#if CLIENTS > 1
#define ALL_DONE \
	(done[0] && done[1] && empty(socket[0]) && empty(socket[1]) && \
		dead[0] == buried[0] && dead[1] == buried[1])
#else
#define ALL_DONE \
	(done[0] && empty(socket[0]) && dead[0] == buried[0])
#endif

/* Nothing will ever happen again but a removal. */
inline quiet()
{
	atomic {
		ALL_DONE && !ANY_GONE && !crash ->
		for (n : 0 .. STORAGES - 1) {
#ifndef LEAKS_DO_NOT_COUNT
			assert(name[n] || STATE(own[n]) == FREE)
#else
			skip
#endif
		};
		n = 0
	}
}

active proctype server()
{
	byte s, g, n;
	bit what;

	/* Not started before, so that the first one is like all others. */
	atomic {
		for (n : 0 .. STORAGES - 1) {
			word[n] = WORD(1, FREE);
			own[n] = word[n]
		};
		for (n : 0 .. CLIENTS - 1) {
			run client(n)
		};
		n = 0
	}
begin:	rebuild(s);
	{
end:	do
	:: make(0)
	:: unname(0)
#if STORAGES > 1
	:: make(1)
	:: unname(1)
#endif
	:: receive_note(0)
	:: bury(0)
#if CLIENTS > 1
	:: receive_note(1)
	:: bury(1)
#endif
	:: ANY_GONE -> reap()
	:: quiet() -> break
	od
	} unless {
		atomic {
			crash ->
			for (n : 0 .. STORAGES - 1) {
				drain_word(n)
			};
			s = 0;
			g = 0;
			n = 0;
			what = RING;
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
	od
}
