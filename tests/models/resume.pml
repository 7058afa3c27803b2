/* SPDX-License-Identifier: MIT */
/*
 * Requests over the death of servers: each is done once and answered, or ends
 * with an error after two deaths and is then done at most once.
 *
 * Sockets are the keeper's, so what lies in them, either way, outlives a
 * server; what a server has queued for a socket that is full does not. One
 * client has several requests under way. Somebody else commits as well. A
 * server writes the completion of a request and then commits both with one
 * store; the next server drops what was not committed (daemon/
 * server/send/completion.c). table.pml is about the inside of a commit; "Resuming"
 * in shm/messages.h is the protocol.
 */
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef UPGRADES
#define UPGRADES 1
#endif
#ifndef REQUESTS
#define REQUESTS 2
#endif
#ifndef OTHERS
#define OTHERS 1
#endif

mtype = { ASK, RESUME, RESENT, RESTARTED, ANSWER };
chan to_server = [8] of {mtype, byte, bool}; /* serial or server, again */
chan to_client = [10] of {mtype, byte, bool}; /* serial or server, died */

/* The table: the commit of each request's completion; 0: there is none. */
byte completion[REQUESTS + 1];
byte committed;

/* What only the proof knows. */
byte times_done[REQUESTS + 1];
byte crashes = CRASHES, upgrades = UPGRADES;
bool end_it, died; /* the server; a server that was ended is not to blame */

/* ---- the client -------------------------------------------------------- */

active proctype client()
{
	byte last, got, i;
	bool waiting[REQUESTS + 1], suspect[REQUESTS + 1], blame;
	mtype what;

end:	do
	:: atomic { last < REQUESTS ->
		last++;
		waiting[last] = true
	   };
	   to_server!ASK, last, false
	:: to_client?what, got, blame;
	   if
	   :: what == RESTARTED ->
		to_server!RESUME, got, false;
#ifdef RESENT_FIRST
		to_server!RESENT, 0, false;
#endif
		i = 1;
		do
		:: i > last -> break
		:: i <= last && waiting[i] && suspect[i] && blame ->
			waiting[i] = false; /* the error */
			i++
		:: i <= last && waiting[i] && !(suspect[i] && blame) ->
			suspect[i] = suspect[i] || blame;
			to_server!ASK, i, true;
			i++
		:: i <= last && !waiting[i] -> i++
		od;
#ifndef RESENT_FIRST
		to_server!RESENT, 0, false
#endif
	   :: what == ANSWER && waiting[got] ->
		assert(times_done[got] == 1);
		waiting[got] = false
	   /* To what has ended with an error. */
	   :: what == ANSWER && !waiting[got]
	   fi
	/* Nothing moves any more: nobody waits. */
	:: timeout ->
		i = 1;
		do
		:: i > REQUESTS -> break
		:: i <= REQUESTS -> assert(!waiting[i]); i++
		od;
		break
	od
}

/* ---- servers ----------------------------------------------------------- */

chan queue = [8] of {byte}; /* for the socket, in the server's own memory */
/* Whose is a completion? Of a server before this one, or has this one queued
 * the answer? */
#define FOUND 1
#define QUEUED 2
byte whose[REQUESTS + 1];

inline free_all(which)
{
	atomic {
		i = 1;
		do
		:: i > REQUESTS -> break
		:: i <= REQUESTS ->
			if
			:: whose[i] == which ->
				completion[i] = 0;
				whose[i] = 0
			:: else
			fi;
			i++
		od
	}
}

/* Begins with what the table has. */
inline take_over()
{
	atomic {
		i = 1;
		do
		:: i > REQUESTS -> break
		:: i <= REQUESTS ->
#ifndef NO_DROP
			if
			:: completion[i] > committed -> completion[i] = 0
			:: else
			fi;
#endif
			whose[i] = (completion[i] -> FOUND : 0);
			i++
		od;
		do
		:: queue?i
		:: empty(queue) -> break
		od
	}
}

inline do_it()
{
#ifdef COMPLETED_LATE
	d_step {
		committed++;
		times_done[serial]++;
		assert(times_done[serial] == 1)
	};
	completion[serial] = committed;
#else
	completion[serial] = committed + 1;
	d_step {
		committed++;
		times_done[serial]++;
		assert(times_done[serial] == 1)
	};
#endif
	whose[serial] = QUEUED
}

active proctype server()
{
	byte serial, others = OTHERS, number, i;
	bool again, resuming, started;
	mtype what;

begin:	{
	take_over();
	if
	:: started ->
		number++;
		resuming = true;
#ifdef FREED_WHEN_NOTHING_IS_UNREAD
		/* No answer lies in the socket: were all of them received? */
		if
		:: empty(to_client) -> free_all(FOUND)
		:: nempty(to_client)
		fi;
#endif
		to_client!RESTARTED, number, died
	:: else -> started = true
	fi;
end:	do
	:: to_server?what, serial, again ->
		if
#ifdef ANY_RESUME
		:: what == RESUME -> resuming = false
#else
		:: what == RESUME && serial == number -> resuming = false
		/* Of a server that is dead as well. */
		:: what == RESUME && serial != number
#endif
#ifdef RESENT_TO_ANY
		:: resuming && what == ASK
		:: what == RESENT -> free_all(FOUND)
#else
		:: resuming && what != RESUME
		:: !resuming && what == RESENT -> free_all(FOUND)
#endif
		:: !resuming && what == ASK ->
#ifdef WATERMARK
			/* A later request: were those before it answered? */
			atomic {
				i = 1;
				do
				:: i >= serial -> break
				:: i < serial -> completion[i] = 0; i++
				od
			};
#endif
			if
#ifndef NO_COMPLETION
			:: again && completion[serial] ->
				whose[serial] = QUEUED
			:: !(again && completion[serial]) -> do_it()
#else
			:: do_it()
#endif
			fi;
			queue!serial;
#ifdef FREED_WHEN_QUEUED
			free_all(QUEUED)
#endif
		fi
	:: nempty(queue) ->
		atomic { queue?serial; to_client!ANSWER, serial, false };
		if
		:: empty(queue) -> free_all(QUEUED)
		:: nempty(queue)
		fi
	:: atomic { others > 0 -> others--; committed++ }
	od
	} unless {
		atomic { end_it -> end_it = false; goto begin }
	}
}

active proctype killer()
{
end:	do
	:: atomic { crashes > 0 && !end_it ->
		crashes--;
		died = true;
		end_it = true
	   }
	:: atomic { upgrades > 0 && !end_it ->
		upgrades--;
		died = false;
		end_it = true
	   }
	od
}
