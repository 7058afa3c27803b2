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
 * broken, so that two of them change places, or one is not made: see models_names.sh.
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
#ifndef NO_ZERO
	commit[V(n, i)] = 0;
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
