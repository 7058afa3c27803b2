/* SPDX-License-Identifier: MIT */
/*
 * A daemon offers a mutable tensor in huge pages, as one of before they were
 * refused may. Its writers can free its pages, and there may be no others when
 * a reader touches it, which is a SIGBUS. So a client does not map it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/falloc.h>

#include "base/fd.h"
#include "base/page.h"
#include "lib/store/store.h"
#include "tests/kit/fake_daemon.h"
#include "tests/kit/huge_pages.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define MFD_2MB (21u << 26) /* MFD_HUGE_2MB */
#define INDEX 4u
#define PATIENCE_MS 60000

static struct fake fake;
static tarn_store *store;

static int huge_memory(uint64_t size)
{
	int fd = memfd_create("huge",
		MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_2MB);

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		return fd;
	fd_close(fd);
	return -1;
}

/* A daemon that has it as its own memory. */
static void begin(void)
{
	struct table_storage *entry;
	int sock = fake_start(&fake, FAKE_GOOD);

	fake.own_fd = huge_memory(HUGE_PAGE);
	if (fake.own_fd < 0 || fcntl(fake.own_fd, F_ADD_SEALS,
				       F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		bail("huge memory: %m");
	entry = &fake.table.storages[INDEX];
	entry->pool = TABLE_POOL_OWN;
	entry->size = HUGE_PAGE;
	entry->flags = STORAGE_OWN | STORAGE_MUTABLE | STORAGE_CREATED;
	entry->word = storage_word(FAKE_GENERATION, STORAGE_LIVE);
	fake.table.header->n_storages = INDEX + 1;
	must(store_open_fd(sock, "fake", "", PATIENCE_MS, &store));
}

static void end(void)
{
	store = tarn_store_unref(store);
	fake_stop(&fake);
	fd_close(fake.own_fd);
}

static int import(tarn_tensor **ret)
{
	const struct tarn_descriptor d = {.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.instance = FAKE_INSTANCE,
		.pool = TABLE_POOL_OWN,
		.storage = INDEX,
		.generation = FAKE_GENERATION,
		.size = HUGE_PAGE,
		.dtype = TARN_U8,
		.ndim = 1,
		.shape = {HUGE_PAGE},
		.stride = {1}};

	return tarn_store_import(store, &d, ret);
}

static void test_refused(void)
{
	tarn_tensor *t = NULL;

	begin();
	is_int(-EPROTO, import(&t),
		"a mutable tensor in huge pages is not mapped");
	has_str("a mutable storage in huge pages", tarn_error_message(),
		"the error names the huge pages");
	ok(!t, "no tensor is returned");
	is_int(0, lease_count(fake.page), "no lease is left");
	tarn_tensor_unref(t);
	end();
}

/* All that are free, for as long as this process lives. */
static void use_up(uint64_t n)
{
	int fd = huge_memory(n * HUGE_PAGE);
	char *p = mmap(
		NULL, n * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		bail("mmap of %llu huge pages: %m", (unsigned long long)n);
	memset(p, 1, n * HUGE_PAGE);
}

/* In a process of its own, which a SIGBUS ends. */
static _Noreturn void read_freed(void)
{
	tarn_tensor *t = NULL;
	char *p;

	begin();
	p = mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
		fake.own_fd, 0);
	if (p == MAP_FAILED)
		_exit(2);
	p[0] = 1;
	if (import(&t) < 0)
		_exit(0);
	munmap(p, HUGE_PAGE);
	if (fallocate(fake.own_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		    0, HUGE_PAGE) < 0)
		_exit(3);
	use_up(huge_pages_free());
	_exit(*(volatile char *)tarn_tensor_data(t) ? 4 : 0);
}

static void test_reader_lives(void)
{
	int status = 0;
	pid_t pid;

	huge_pages_turn();
	if (!huge_pages_reserve(1)) {
		skip(1, "no huge pages of 2 MiB can be reserved");
		return;
	}
	pid = fork();
	if (pid == 0)
		read_freed();
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		bail("fork: %m");
	huge_pages_give_back();
	if (!ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		    "a reader outlives the writer's freeing of the pages"))
		diag("  wait status %d", status);
}

int main(void)
{
	int fd = huge_memory(HUGE_PAGE);

	if (fd < 0)
		skip_all("no memfd of huge pages can be made here: %m");
	fd_close(fd);
	test_refused();
	test_reader_lives();
	return done(5);
}
