/* SPDX-License-Identifier: MIT */
/*
 * Which load that is under way another one joins. Where stamps prove nothing, a
 * writer may have come in between: so only a load that has read nothing yet is
 * joined, or one of a file that no writer can change, and only one of the same
 * user, where the same numbers are the same file.
 */
#include <string.h>

#include "daemon/server/load/internal.h"
#include "tests/kit/tap.h"

enum {
	EXT4 = 0xEF53,
	TMPFS = 0x01021994,
	SQUASHFS = 0x73717368,
	FUSE = 0x65735546,
	OVERLAYFS = 0x794C7630,
	NFS = 0x6969
};

static struct domain domain, user, another;
static const struct msg_range range = {.size = 4096};
static struct load running, load;

static void make(struct load *of, uint32_t fs, enum not_kept not_kept)
{
	*of = (struct load) {.domain = &domain,
		.user = &user,
		.size = 4096,
		.n_ranges = 1,
		.ranges = &range,
		.identity = {.not_kept = not_kept,
			.file = {.dev = 7, .ino = 42, .size = 8192, .fs = fs}}};
}

static void begin(uint32_t fs, enum not_kept not_kept, enum load_state state)
{
	make(&running, fs, not_kept);
	make(&load, fs, not_kept);
	running.state = state;
	running.bytes.size = state == LOAD_FILLING ? 4096 : 0;
	load.state = LOAD_IDENTIFYING;
	running.next = &load;
	domain.loading.loads = &running;
}

static void joins(bool wanted, const char *what)
{
	struct load *with = load_find_running(&load);

	ok(wanted ? with == &running : !with, "%s%s",
		wanted ? "" : "it reads by itself: ", what);
}

int main(void)
{
	begin(EXT4, NOT_KEPT_KEPT, LOAD_FILLING);
	joins(true, "a load of a file that is kept is joined while it reads");
	load.user = &another;
	joins(true, "a load of another user joins one of a file that is kept");

	begin(TMPFS, NOT_KEPT_FILE_SYSTEM, LOAD_FILLING);
	joins(false, "a file in memory may have changed since the first read");
	begin(TMPFS, NOT_KEPT_FILE_SYSTEM, LOAD_WAITING);
	joins(true, "a load that has read nothing is joined");
	load.user = &another;
	joins(false, "the load is another user's, and not proved");
	load.user = &user;
	load.fresh = true;
	joins(false, "it is to be read again");
	load.fresh = false;
	load.seen.header_size = 8;
	joins(false, "another header was parsed");
	load.seen.header_size = 0;
	load.identity.file.ino++;
	joins(false, "it is another file");

	begin(EXT4, NOT_KEPT_WRITERS, LOAD_WAITING);
	joins(true, "a file with a writer is read once, after both were asked "
		    "for");
	begin(EXT4, NOT_KEPT_WRITERS, LOAD_FILLING);
	joins(false, "a writer may have written since the first read");
	running.identity.not_kept = NOT_KEPT_KEPT;
	joins(false, "a writer came after the first load began");

	begin(SQUASHFS, NOT_KEPT_FILE_SYSTEM, LOAD_FILLING);
	joins(true, "a load of a file in an image is joined while it reads");
	begin(FUSE, NOT_KEPT_FILE_SYSTEM, LOAD_WAITING);
	joins(false, "a FUSE server numbers its files as it likes");
	begin(OVERLAYFS, NOT_KEPT_FILE_SYSTEM, LOAD_WAITING);
	joins(false, "overlayfs shows the numbers of several file systems");
	begin(NFS, NOT_KEPT_RACY, LOAD_WAITING);
	joins(false, "a file server's stamps are coarse");
	return done(15);
}
