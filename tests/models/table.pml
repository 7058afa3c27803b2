/* SPDX-License-Identifier: MIT */
/*
 * Transactions of names: two versions each, one commit number, a crash between
 * any two stores.
 *
 * The idea: a server changes any set of names in each transaction, a reader
 * looks them up one by one, and the proof alone remembers what every commit
 * left under every name. What a look-up finds must be what the commit left
 * that it took for its snapshot.
 *
 * The server's stores are seen in order, since each that matters is a release
 * store or follows a release fence (version_write, record_erase); what may be
 * broken, so that two of them change places, or one is not made: see names.sh.
 * The reader's loads are done in order too.
 */
#ifndef COMMITS
#define COMMITS 4
#endif
#ifndef LOOKUPS
#define LOOKUPS 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#define NAMES 2

/* The control region. Of a version: its commit number, what it says (0: that
 * the name is removed). */
byte committed;
byte commit[NAMES * 2];
byte says[NAMES * 2];

#ifdef ROUNDS
/* For snapshots: how often the name was published, is there a record of it, and
 * the note of the newest removal. */
byte nth[NAMES * 2];
bool there[NAMES];
byte removed;
#endif

/* What only the proof knows: what each commit left under each name. */
byte left_by[(COMMITS + 1) * NAMES];
byte crashes = CRASHES;
bool crash;

#define V(n, i) ((n) * 2 + (i))

/* ---- the server ---------------------------------------------------------- */

/* The version to write: the pending one, else the one that does not stand. */
inline choose(n, i)
{
	d_step {
		if
		:: commit[V(n, 0)] > committed -> i = 0
		:: commit[V(n, 1)] > committed -> i = 1
		:: else ->
			i = (commit[V(n, 0)] > commit[V(n, 1)] -> 1 : 0)
		fi
	}
}

inline write(n, i, what)
{
#ifdef ROUNDS
#ifndef LATE_NOTE
	if
	:: what == 0 -> removed = committed + 1
	:: else
	fi;
#endif
	there[n] = true;
#endif
#ifndef NO_ZERO
	commit[V(n, i)] = 0;
#endif
#ifdef ROUNDS
	nth[V(n, i)] = (commit[V(n, 1 - i)] -> nth[V(n, 1 - i)] + 1 : 1);
#endif
	says[V(n, i)] = what;
	commit[V(n, i)] = committed + 1
}

/* Names are put, or removed, or left as they are. */
inline transaction()
{
	atomic {
		committed < COMMITS;
		for (n : 0 .. NAMES - 1) {
			if
			:: new[n] = committed + 1
			:: new[n] = 0
			:: new[n] = left_by[committed * NAMES + n]
			fi
		};
		n = 0
	};
#ifdef COMMIT_FIRST
	commit_it();
#endif
	do
	:: n < NAMES ->
		if
		:: new[n] != left_by[committed * NAMES + n] ->
			choose(n, i);
			write(n, i, new[n])
		:: else
		fi;
		n++
	:: else -> break
	od;
#ifndef COMMIT_FIRST
	commit_it();
#endif
	tidy()
}

/* The one store that counts. */
inline commit_it()
{
	d_step {
		committed++;
		left_by[committed * NAMES] = new[0];
		left_by[committed * NAMES + 1] = new[1];
		n = 0
	}
}

/* Records of removed names are emptied, the older version first: or it would
 * stand again. */
inline tidy()
{
	atomic { n = 0 };
	do
	:: n < NAMES ->
		if
		:: left_by[committed * NAMES + n] == 0 ->
#ifdef ERASE_NEWER_FIRST
			i = (commit[V(n, 0)] > commit[V(n, 1)] -> 0 : 1);
#else
			i = (commit[V(n, 0)] > commit[V(n, 1)] -> 1 : 0);
#endif
			commit[V(n, i)] = 0;
			commit[V(n, 1 - i)] = 0
#ifdef ROUNDS
			; there[n] = false
#ifdef LATE_NOTE
			; removed = committed
#endif
#endif
		:: else
		fi;
		n++
	:: else -> break
	od;
	atomic { n = 0; i = 0; new[0] = 0; new[1] = 0 }
}

/* table_writer_new: what is pending is dropped, then it is tidied. */
inline recover()
{
	atomic { n = 0; i = 0; new[0] = 0; new[1] = 0 };
#ifndef NO_DROP
	do
	:: n < NAMES * 2 ->
		if
		:: commit[n] > committed -> commit[n] = 0
		:: else
		fi;
		n++
	:: else -> break
	od;
#endif
	tidy()
}

active proctype server()
{
	byte n, i, new[NAMES];

begin:	{
		recover();
end:		do
		:: transaction()
		od
	} unless {
		atomic { crash -> crash = false; goto begin }
	}
}

active proctype killer()
{
end:	do
	:: atomic { crashes > 0 && !crash -> crashes--; crash = true }
	od
}

/* ---- a reader -------------------------------------------------------------- */

/* version_pick: acquire loads, one after the other. */
inline pick()
{
	best = 0;
	at = 0;
	i = 0;
	do
	:: i < 2 ->
		atomic {
			c = commit[V(n, i)];
			if
			:: c > best && c <= snapshot -> best = c; at = i
			:: else
			fi;
			i++
		}
	:: else -> break
	od
}

#ifndef ROUNDS
active proctype reader()
{
	byte n, i, at, c, best, snapshot, seen, times = LOOKUPS, last;

	do
	:: atomic { times > 0 ->
		times--;
		if
		:: n = 0
		:: n = 1
		fi
	   };
again:	   snapshot = committed;
	   pick();
	   if
	   :: best > 0 ->
		seen = says[V(n, at)];
#ifndef NO_SECOND_LOOK
		if
		:: commit[V(n, at)] != best -> goto again
		:: else
		fi
#endif
	   :: else ->
		seen = 0;
#ifndef NO_LOOK_AT_COMMITTED
		if
		:: committed != snapshot -> goto again
		:: else
		fi
#endif
	   fi;
	   /* And it never goes back. */
	   atomic {
		assert(seen == left_by[snapshot * NAMES + n]);
		assert(snapshot >= last);
		last = snapshot;
		i = 0;
		at = 0;
		c = 0;
		best = 0;
		seen = 0;
		snapshot = 0
	   }
	:: else -> break
	od
}
#else

/*
 * A snapshot: lib/store/snapshot.c, shm/table_set.c. What is held after a round that nothing
 * overtook is what the commit left that the round took. A version is leased as
 * long as its storage is not freed, which may happen as soon as a later commit
 * has displaced it; a lease that was taken is kept for the next rounds.
 */
inline lease()
{
	atomic {
		if
		:: says_now == left_by[committed * NAMES + n] -> got = true
		:: says_now != left_by[committed * NAMES + n] -> got = true
		:: says_now != left_by[committed * NAMES + n] -> got = false
		fi;
		if
		:: got -> held[n] = says_now; held_commit[n] = best
		:: else -> lost = true
		fi
	}
}

/* No version that old: did the name come later? */
inline came_later()
{
	first = false;
	i = 0;
	do
	:: i < 2 ->
		atomic {
			c = commit[V(n, i)];
#ifdef ANY_LATER
			first = first || c > snapshot
#else
			first = first || (c > snapshot && nth[V(n, i)] == 1)
#endif
			; i++
		}
	:: else -> break
	od;
	if
	:: first || committed == snapshot ->
		atomic { held[n] = 0; held_commit[n] = 0 }
	:: else -> lost = true
	fi
}

inline read_name()
{
	pick();
	if
	:: best > 0 && best == held_commit[n] ->
#ifndef NO_LOOK_AT_HELD
		if
		:: commit[V(n, at)] != best -> lost = true
		:: else
		fi
#else
		skip
#endif
#ifdef NO_COMPARE
	:: held_commit[n] > 0 && best != held_commit[n] -> skip
#else
	:: best > 0 && best != held_commit[n] ->
		says_now = says[V(n, at)];
		if
		:: commit[V(n, at)] != best -> lost = true
		:: commit[V(n, at)] == best && says_now == 0 ->
			atomic { held[n] = 0; held_commit[n] = 0 }
		:: commit[V(n, at)] == best && says_now > 0 -> lease()
		fi
#endif
#ifdef NO_COMPARE
	:: held_commit[n] == 0 && best > 0 ->
		says_now = says[V(n, at)];
		if
		:: commit[V(n, at)] == best && says_now > 0 -> lease()
		:: else -> lost = true
		fi
	:: held_commit[n] == 0 && best == 0 -> came_later()
#else
	:: best == 0 -> came_later()
#endif
	fi
}

active proctype taker()
{
	byte n, i, at, c, best, snapshot, says_now, rounds = ROUNDS;
	byte held[NAMES], held_commit[NAMES];
	bool lost, got, first;

	do
	:: rounds > 0 ->
		atomic { rounds--; lost = false; n = 0 };
		snapshot = committed;
		do
		:: n < NAMES ->
			if
			:: there[n] -> read_name()
			:: !there[n] -> atomic { held[n] = 0; held_commit[n] = 0 }
			fi;
			atomic { i = 0; at = 0; c = 0; best = 0; says_now = 0;
				got = false; first = false; n++ }
		:: else -> break
		od;
#ifndef NO_LOOK_AT_REMOVED
		if
		:: removed > snapshot && committed != snapshot -> lost = true
		:: else
		fi;
#endif
		atomic {
			assert(lost || held[0] == left_by[snapshot * NAMES]);
			assert(lost ||
				held[1] == left_by[snapshot * NAMES + 1])
		}
	:: else -> break
	od
}
#endif
