/* SPDX-License-Identifier: MIT */
/*
 * The module of fail_alloc.h.
 *
 * glibc's own heap has other names too (__libc_malloc), so the public ones can
 * be replaced without looking anything up, at any time, also before main;
 * memory that libc itself takes by them (strdup, getline, threads) fails as
 * well. System calls are made directly.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kit/fail_alloc.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);

/* All that follows is what others shall find. */
#pragma GCC visibility push(default)

static struct fail_page *page;

static __attribute__((constructor)) void find_page(void)
{
	const char *path = getenv(FAIL_ALLOC_FILE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map = MAP_FAILED;

	if (fd >= 0)
		map = (void *)syscall(SYS_mmap, NULL, 4096,
			PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		page = map;
	if (fd >= 0)
		close(fd);
}

static bool ours(void)
{
	return page && atomic_load(&page->pid) == getpid();
}

/* Is this the call? */
static bool fails(const char *what)
{
	if (!ours() || atomic_fetch_sub(&page->left, 1) != 1)
		return false;
	strncpy(page->what, what, sizeof(page->what) - 1);
	atomic_fetch_add(&page->hits, 1);
	errno = ENOMEM;
	return true;
}

static void *counted(void *block)
{
	if (block && ours())
		atomic_fetch_add(&page->blocks, 1);
	return block;
}

/* ---- the heap ------------------------------------------------------------ */

void *malloc(size_t size)
{
	return fails("malloc") ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return fails("calloc") ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *old, size_t size)
{
	void *block;

	if (size && fails("realloc"))
		return NULL;
	block = __libc_realloc(old, size);
	if (!old)
		counted(block);
	else if (!size && ours())
		atomic_fetch_sub(&page->blocks, 1);
	return block;
}

void *reallocarray(void *old, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

void *memalign(size_t align, size_t size)
{
	return fails("memalign") ? NULL : counted(__libc_memalign(align, size));
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
	void *block = memalign(align, size);

	if (!block)
		return ENOMEM;
	*ret = block;
	return 0;
}

void free(void *block)
{
	if (block && ours())
		atomic_fetch_sub(&page->blocks, 1);
	__libc_free(block);
}

/* ---- what the kernel gives ----------------------------------------------- */

int memfd_create(const char *name, unsigned flags)
{
	if (fails("memfd_create"))
		return -1;
	return (int)syscall(SYS_memfd_create, name, flags);
}

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (fails("mmap"))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, addr, size, prot, flags, fd, offset);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	if (fails("socketpair"))
		return -1;
	return (int)syscall(SYS_socketpair, domain, type, protocol, fds);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (fails("sendmsg"))
		return -1;
	return syscall(SYS_sendmsg, fd, message, flags);
}

/* Only to have one more descriptor takes anything. */
static int control(int fd, int command, va_list arguments)
{
	long argument = va_arg(arguments, long);

	if (command == F_DUPFD_CLOEXEC && fails("dup")) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

int fcntl(int fd, int command, ...)
{
	va_list arguments;
	int r;

	va_start(arguments, command);
	r = control(fd, command, arguments);
	va_end(arguments);
	return r;
}

/* The same, to what is built for large files. */
int fcntl64(int fd, int command, ...);
int fcntl64(int fd, int command, ...)
{
	va_list arguments;
	int r;

	va_start(arguments, command);
	r = control(fd, command, arguments);
	va_end(arguments);
	return r;
}

int pipe2(int fds[2], int flags)
{
	if (fails("pipe2"))
		return -1;
	return (int)syscall(SYS_pipe2, fds, flags);
}
