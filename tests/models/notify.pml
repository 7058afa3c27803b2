/* SPDX-License-Identifier: MIT */
/*
 * Notifications: releases that a full socket does not take.
 *
 * The idea: what shm/lease.h argues under "Notifications", for every
 * interleaving of a client that releases and a server that reads, on a machine
 * with store buffers, as in lease.pml. The socket's queue is under a lock.
 * Whether it has room is a number that each side counts without one, as the
 * kernel does: the client what it has sent, the server what it has made room
 * for, which the client may see late.
 *
 * Steps bear the names that shm/lease.h gives them. When all is quiet, every
 * storage that was released is free.
 *
 * A client has several pages of leases, each with a word for this. The client
 * stores that of its first page (NOTIFIED: pages[0] in
 * lib/store/lease_slots.h). The server loads that of its first page (LOOKED_AT:
 * leases[0] in daemon/server/storage/lease_pages.c). For both it is the page that
 * the connection came with.
 *
 * What may be set from outside: RELEASES, and ROOM in the socket, all of which
 * is taken at the start. What may be broken: see notify.sh.
 */
#ifndef RELEASES
#define RELEASES 3
#endif
#ifndef ROOM
#define ROOM 1
#endif

#define PAGES 2
#ifndef NOTIFIED
#define NOTIFIED 0
#endif
#ifndef LOOKED_AT
#define LOOKED_AT 0
#endif

/* a message of something else, or a notification for no storage */
#define NONE 255

chan socket = [ROOM] of {byte};
byte sent = ROOM;	  /* the client's */
byte made, made_next;	  /* the server's; made: as the client sees it */
bool made_late;
/* Only 1 is ever stored late, and to NOTIFIED. */
bit notified[PAGES], notified_late;
bit held[RELEASES] = 1;	  /* slots in use */
bit held_late[RELEASES]; /* only 0 is stored late */
bit freed[RELEASES];
bool released, idle;

inline drain_client(n)
{
	d_step {
		n = 0;
		do
		:: n < RELEASES ->
			if
			:: held_late[n] -> held[n] = 0; held_late[n] = 0
			:: else
			fi;
			n++
		:: else -> break
		od;
		n = 0;
		if
		:: notified_late -> notified[NOTIFIED] = 1; notified_late = 0
		:: else
		fi
	}
}

inline drain_server()
{
	d_step {
		if
		:: made_late -> made = made_next; made_late = false
		:: else
		fi
	}
}

/* Buffers drain by themselves. */
active proctype memory()
{
	byte i;

end:	do
	:: atomic { made_late -> made = made_next; made_late = false }
	:: atomic { notified_late -> notified[NOTIFIED] = 1; notified_late = 0 }
	:: atomic { held_late[0] -> held[0] = 0; held_late[0] = 0 }
#if RELEASES > 1
	:: atomic { held_late[1] -> held[1] = 0; held_late[1] = 0 }
#endif
#if RELEASES > 2
	:: atomic { held_late[2] -> held[2] = 0; held_late[2] = 0 }
#endif
	od
}

/* The system call: false, the socket is full. A lock orders what is sent. */
inline try(what, ok)
{
	if
	:: sent - made < ROOM ->
		drain_client(n);
		sent++;
		socket!what;
		ok = true
	:: else -> ok = false
	fi
}

active proctype client()
{
	byte i, n;
	bool ok;

	do
	:: i < RELEASES ->
		held_late[i] = 1;
		drain_client(n); /* lease_release() fences */
		try(i, ok);
		if
		:: ok
		:: else ->
#ifdef NOTIFY_AFTER_TRY
			try(NONE, ok);
			notified_late = 1;
#else
#ifndef NO_NOTIFY
			notified_late = 1; /* R1 */
#endif
#ifndef NO_CLIENT_FENCE
			drain_client(n);
#endif
			try(NONE, ok) /* R2 */
#endif
		fi;
		i++
	:: else -> break
	od;
	drain_client(n);
	released = true
}

inline look(i)
{
	if
	:: !held[i] -> freed[i] = 1
	:: else
	fi
}

inline look_at_all(n)
{
	n = 0;
	do
	:: n < RELEASES -> look(n); n++
	:: else -> break
	od;
	n = 0
}

active proctype server()
{
	byte n, what, filled;

	/* Others have filled the socket. */
	do
	:: filled < ROOM -> socket!NONE; filled++
	:: else -> break
	od;
end:	do
	:: atomic { socket?what -> idle = false };
		made_next = (made_late -> made_next : made) + 1;
		made_late = true;
#ifndef NO_SERVER_FENCE
		drain_server();
#endif
		if
		:: what != NONE -> look(what)
		:: else
		fi;
		if
		:: notified[LOOKED_AT] -> /* R3 */
#ifdef CLEAR_AFTER_LOOK
			look_at_all(n);
			notified[LOOKED_AT] = 0
#else
			notified[LOOKED_AT] = 0;
			look_at_all(n)
#endif
		:: else
		fi;
		drain_server();
		atomic { what = 0; idle = true }
	od
}

active proctype quiet()
{
	byte n;

	atomic {
		released && idle && empty(socket) && !made_late && !notified_late;
		n = 0;
		do
		:: n < RELEASES -> assert(freed[n] == 1); n++
		:: else -> break
		od
	}
}
