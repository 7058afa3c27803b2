/* SPDX-License-Identifier: MIT */
/*
 * Jobs without a file: the loader copies bytes of the pool to where it is told,
 * across segments, and nothing else; it refuses what is not mapped, and what
 * would copy bytes onto themselves. It can be dropped at any moment, and a file
 * is read meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/loader.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)
#define FILE_SIZE (9 * MIB + 77)
#define FROM (KIT_FIRST + 3 * MIB + 4096)
#define TO (KIT_FIRST + 20 * MIB)

static struct kit kit;
static uint64_t jobs;

static int copy(uint64_t from, uint64_t size, uint64_t to)
{
	const struct msg_fill_range range = {.size = size, .pool_offset = to};
	uint64_t taken = (size + 4095) / 4096 * 4096;

	if (kit_loader_identify_copy(&kit, ++jobs, from, size) != L_IDENTITY)
		return -kit.error;
	return kit_loader_fill(&kit, jobs, to, taken, &range, 1);
}

static void read_file(uint64_t to)
{
	const struct msg_fill_range range = {
		.size = FILE_SIZE, .pool_offset = to};
	_cleanup_fd_ int fd =
		open(kit_loader_file("f", FILE_SIZE), O_RDONLY | O_CLOEXEC);

	if (kit_loader_identify(&kit, ++jobs, fd, -1) != L_IDENTITY ||
		kit_loader_fill(&kit, jobs, to, 10 * MIB, &range, 1) != L_DONE)
		bail("a file: %s", kit.text);
}

static void copies(void)
{
	kit_loader_wipe(&kit);
	read_file(FROM);
	is_int(L_DONE, copy(FROM, FILE_SIZE, TO), "bytes are copied");
	is_int((int64_t)FILE_SIZE, (int64_t)kit.filled.bytes,
		"the loader says how many");
	is_int(0,
		(int64_t)(kit.filled.flags &
			  (LOADED_DIRECT | LOADED_REGISTERED)),
		"they were read from no file");
	ok(kit_loader_holds(&kit, TO, FILE_SIZE, 0),
		"they are the bytes, across segments");
	ok(kit_loader_holds(&kit, FROM, FILE_SIZE, 0),
		"what was copied is as it was");
	is_int(0, kit_loader_byte(&kit, TO + FILE_SIZE),
		"the rest of the last page is zeroed");
	is_int(KIT_CANARY, kit_loader_byte(&kit, TO + 10 * MIB),
		"no byte behind the allocation is written");
	is_int(KIT_CANARY, kit_loader_byte(&kit, TO - 1),
		"no byte before the allocation is written");
}

static void refused(uint64_t from, uint64_t size, uint64_t to, int error,
	const char *words, const char *what)
{
	int type = copy(from, size, to);

	is_int(error, type == L_FAILED ? kit.error : -type,
		"a copy is refused: %s", what);
	has_str(words, kit.text, "%s: the error says it", what);
}

static void refuses(void)
{
	uint64_t end = KIT_FIRST + KIT_SIZE, hash = kit_loader_hash(&kit);

	refused(FROM, 0, TO, EINVAL, "no bytes to copy", "no bytes");
	refused(end - MIB, 2 * MIB, TO, EFAULT, "not inside the",
		"bytes behind the last segment");
	refused(0, MIB, TO, EFAULT, "not inside the",
		"bytes before the first segment");
	refused(UINT64_MAX - 4096, 8192, TO, EFAULT, "not inside the",
		"bytes beyond all numbers");
	refused(FROM, MIB, FROM + 4096, EINVAL, "cannot be copied",
		"bytes onto themselves");
	ok(kit_loader_hash(&kit) == hash, "a refused copy writes nothing");
}

static void dropped(void)
{
	const struct msg_fill_range range = {
		.size = 20 * MIB, .pool_offset = KIT_FIRST + 24 * MIB};
	uint64_t of = 0;
	int type;

	is_int(L_IDENTITY,
		kit_loader_identify_copy(&kit, ++jobs, FROM, 20 * MIB),
		"a copy is asked for");
	kit_loader_send_fill(
		&kit, jobs, KIT_FIRST + 24 * MIB, 20 * MIB, &range, 1);
	kit_loader_send_drop(&kit, jobs);
	type = kit_loader_answer(&kit, &of);
	/* It may have been done before. */
	if (type == L_DONE)
		type = kit_loader_answer(&kit, &of);
	is_int(L_DROPPED, type, "a copy is dropped under way");
	is_int(L_DONE, copy(FROM, FILE_SIZE, TO), "another one goes well");
}

int main(void)
{
	kit_loader_start(&kit);
	copies();
	refuses();
	dropped();
	is_int(0, kit_loader_stop(&kit), "the loader ends in good order");
	kit_loader_clean();
	return done(23);
}
