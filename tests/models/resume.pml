/* SPDX-License-Identifier: MIT */
/*
 * Requests over the death of servers: done once, answered or ended.
 *
 * The idea: the sockets are the keeper's, so what lies in them, either way,
 * outlives a server; what a server has read and not answered is known to its
 * client alone, who says it again. See "Resuming" in shm/wire.h. A commit is
 * one step here (table.pml is about its inside); a name keeps the tokens of
 * its two newest versions, and nothing else tells a server what its
 * predecessors did.
 *
 * One client publishes one name and another, who is never in doubt, publishes
 * and removes the same, as fast as he likes. With REMOVE the client removes it
 * instead, which leaves no token: where nothing stands it was done, by whomever.
 * With LOAD the client, and sometimes the other, loads a file under the name: to
 * do so twice undoes something only where something else stands. A file takes
 * time to be read, in which others go on: what was touched before is a doubt,
 * and what stands after it settles that.
 */
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef REQUESTS
#define REQUESTS 2
#endif
#ifndef OTHERS
#define OTHERS 3
#endif

/* Requests and answers: what, serial, said before? */
mtype = { PUBLISH, RESUME, RESTARTED, PUBLISHED, REFUSED };
chan to_server = [4] of {mtype, byte, bool, byte};
chan to_client = [6] of {mtype, byte};

/* The table: two versions of the name, the newer first; 0: none. */
byte token[2], commit[2];
byte committed;
byte removed; /* the last commit that removed a name */

/* What only the proof knows. */
byte times_done[REQUESTS + 1];
byte crashes = CRASHES;
bool crash, stop;

#define OTHER 200 /* a token of somebody else's */
#define SAME 201  /* somebody else's, and of the same file */

active proctype client()
{
	byte serial, got, since;
	bool said, is_again;
	mtype what;

	do
	:: atomic { serial < REQUESTS ->
		serial++;
		is_again = false;
		since = committed /* it maps the table */
	   };
	   to_server!PUBLISH, serial, false, since;
wait:	   to_client?what, got;
	   if
	   :: what == RESTARTED ->
		to_server!RESUME, 0, false, 0;
#ifndef NO_SECOND_TRY
		if
		:: !is_again ->
			is_again = true;
#ifdef NEW_SERIAL
			to_server!PUBLISH, serial, false, since;
#else
			to_server!PUBLISH, serial, true, since;
#endif
			goto wait
		:: else
			/* A clear error: it may have been done, or not. */
		fi
#endif
	   /* Answers to what was given up are nobody's. */
	   :: what != RESTARTED && got != serial -> goto wait
	   :: what == PUBLISHED && got == serial ->
#ifdef REMOVE
		skip
#else
#ifdef LOAD
		assert(times_done[serial] >= 1)
#else
		assert(times_done[serial] == 1)
#endif
#endif
	   :: what == REFUSED && got == serial
	   fi
	:: atomic { serial == REQUESTS -> break }
	od;
	/* Nothing is under way, but servers still die. */
end:	do
	:: to_client?what, got;
	   if
	   :: what == RESTARTED -> to_server!RESUME, 0, false, 0
	   :: else
	   fi
	od
}

inline commit_it(t)
{
	d_step {
		committed++;
		token[1] = token[0];
		commit[1] = commit[0];
		token[0] = t;
		commit[0] = committed
	}
}

inline remove_it()
{
	d_step {
		committed++;
		removed = committed;
		token[0] = 0;
		token[1] = 0;
		commit[0] = 0;
		commit[1] = 0
	}
}

/* Somebody else publishes it, or removes it. */
inline somebody()
{
	others--;
	if
	:: commit_it(OTHER)
#ifdef LOAD
	:: commit_it(SAME)
#endif
	:: remove_it()
	fi
}

#ifdef STANDS_ONLY
#define TOUCHED (commit[0] > since)
#else
#define TOUCHED (commit[0] > since || (!commit[0] && removed > since))
#endif

/* Is it in doubt; what is read, for long; the names. */
inline load_it()
{
	doubt = again && TOUCHED;
	do
	:: atomic { others > 0 -> somebody() }
	:: break
	od;
	atomic {
		if
#ifndef NO_DOUBT
		:: doubt && commit[0] > since && token[0] == OTHER ->
			what = REFUSED
#endif
		:: else ->
			assert(!times_done[serial] || token[0] != OTHER);
			commit_it(serial);
			times_done[serial]++
		fi;
		doubt = false
	}
}

active proctype server()
{
	byte serial, since, others = OTHERS;
	bool again, resuming, started, doubt;
	mtype what;

begin:	{
	/* Taking over. */
	if
	:: started -> resuming = true; to_client!RESTARTED, 0
	:: else -> started = true
	fi;
end:	do
	:: to_server?what, serial, again, since ->
		if
		/* Whatever the dead one had read half is said again. */
		:: resuming && what != RESUME
		:: what == RESUME -> resuming = false
		:: !resuming && what == PUBLISH ->
			if
#ifdef REMOVE
			:: !commit[0] && again
			:: !commit[0] && !again -> what = REFUSED
#ifndef NO_DOUBT
			:: again && commit[0] > since -> what = REFUSED
#endif
			:: else ->
				atomic {
					remove_it();
					times_done[serial]++;
					assert(times_done[serial] == 1)
				}
#else
#ifndef NO_TOKEN
			:: again && (token[0] == serial || token[1] == serial)
#endif
#ifdef LOAD
			:: else -> load_it()
#else
#ifndef NO_DOUBT
			/* It may have been done, and displaced or removed
			 * since: others were there after it was first sent. */
			:: again && token[0] != serial &&
				token[1] != serial && TOUCHED ->
				what = REFUSED
#endif
			:: else ->
				atomic {
					commit_it(serial);
					times_done[serial]++;
					assert(times_done[serial] == 1)
				}
#endif
#endif
			fi;
			if
			:: what == REFUSED -> to_client!REFUSED, serial
			:: else -> to_client!PUBLISHED, serial
			fi
		fi
	:: atomic { others > 0 -> somebody() }
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
