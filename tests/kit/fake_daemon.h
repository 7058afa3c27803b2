/* SPDX-License-Identifier: MIT */
/*
 * A daemon of one thread, inside the test: it uses shm/wire.h over a
 * socketpair, with a real table, a real lease page and real segments, and each
 * fault that a daemon must not have can be selected.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include <tarn/report.h>

#include "shm/lease.h"
#include "shm/table.h"
#include "shm/messages.h"

#define FAKE_SEGMENT (4u << 20)
#define FAKE_SEGMENTS 3u
#define FAKE_REACH (64ull << 20)
#define FAKE_INSTANCE 0x1122334455667788ull

/* The storages that it has from the start. */
#define FAKE_SMALL 0u  /* 4,096 bytes at 4,096, counting up */
#define FAKE_WIDE 1u   /* across the first segment's border */
#define FAKE_EMPTY 2u  /* 0 bytes */
#define FAKE_LOADED 3u /* where a load lands */
#define FAKE_GENERATION 7ull
#define FAKE_WIDE_BASE (FAKE_SEGMENT - 8192ull)
#define FAKE_WIDE_SIZE 20000ull
#define FAKE_LOADED_PAGE (2 * FAKE_SEGMENT + 65536ull)

#define FAKE_OWNER 5u /* what a client is called in rings */

enum fake_mode {
	FAKE_GOOD,
	FAKE_WRONG_VERSION, /* welcomes with a version of the far future */
	FAKE_REFUSES,       /* answers hello with an error */
	FAKE_GARBAGE,       /* answers with bytes of no message */
	FAKE_OTHER_TYPE,    /* answers with a message for daemons */
	FAKE_SHORT,         /* a welcome of four bytes */
	FAKE_NO_FDS,        /* a welcome without descriptors */
	FAKE_WRONG_FDS,     /* with two that are something else */
	FAKE_OTHER_TABLE,   /* with the table of another instance */
	FAKE_HANGS,         /* never answers */
	FAKE_DIES,          /* closes at once */
	FAKE_UNSEALED,      /* segments that it could still shrink */
	FAKE_SEALED_SIZE,   /* segments that it could still write */
	FAKE_REGISTER,      /* the same, of a pool of kind register */
	FAKE_OPEN_TABLE,    /* a table that it could still shrink */
	FAKE_FEW_SEGMENTS,  /* fewer descriptors than it says */
	FAKE_WRONG_SERIAL,  /* a descriptor of another segment than shown */
	FAKE_NO_SERIALS,    /* descriptors, without their serials */
	FAKE_BAD_POOL,      /* a pool of impossible reach */
	FAKE_BAD_SEGMENT,   /* a segment outside of its pool */
	/* Segment 1 goes, and another gets its number, while the client asks
	 * for descriptors: before it is answered, or when the answer is
	 * away. */
	FAKE_USES_AGAIN,
	FAKE_USES_AGAIN_LATE,
	FAKE_REPORTS, /* good; it reports one load */
	/* These are good until a load, or a status, is asked for. */
	FAKE_LOAD_DIES,    /* after "loading" */
	FAKE_LOAD_HANGS,   /* until it is cancelled */
	FAKE_LOAD_FAILS,   /* with a sentence */
	FAKE_LOAD_WORDY,   /* its notice is longer than it may be */
	FAKE_LOAD_STALE,   /* names a storage that is gone */
	FAKE_LOAD_LIES,    /* names another size */
	FAKE_LOAD_SLOWLY,  /* in steps, each of which the test has seen */
	FAKE_REPORT_TWICE, /* three answers to one question */
	FAKE_REPORT_SHORT,
	FAKE_REPORT_HANGS,
	/* The server dies over a report, and another answers; or dies too. */
	FAKE_REPORT_KILLS,
	FAKE_REPORT_KILLS_TWICE,
};

struct fake {
	enum fake_mode mode;
	int sock; /* the daemon's end */
	int table_fd, lease_fd;
	int segment_fds[FAKE_SEGMENTS];
	unsigned char *memory[FAKE_SEGMENTS]; /* as the daemon maps them */
	struct table table;
	struct lease_page *page;
	pthread_t thread;
	/* A test's own, once it has put a storage there: WIRE_STORAGE brings
	 * it, whichever was asked for. 0: none. */
	int own_fd;
	_Atomic int n_released; /* notifications */
	_Atomic int n_loads;
	_Atomic int n_seen;    /* by the test, of a slow load's steps */
	uint32_t hanging_load; /* serial */
	bool used_again;       /* the number of segment 1 */
	struct tarn_report_load reported;
	uint32_t restarts;     /* so many servers have died */
	_Atomic int n_resumed; /* times that the client resumed, rightly */
	_Atomic int n_again;   /* requests that it sent again */
	_Atomic int n_resent;  /* times that it said that these were all */
};

/* Starts one; returns the client's end of the socket. */
int fake_start(struct fake *fake, enum fake_mode mode);
/* Ends it: the client's end must have been closed, or is now useless. */
void fake_stop(struct fake *fake);
