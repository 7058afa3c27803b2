/* SPDX-License-Identifier: MIT */
/*
 * The interface of both engines: which one is chosen, which descriptors it
 * keeps open and until when, what it refuses, and that an outer poll loop can
 * wait for it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/kit/filling.h"
#include "tests/kit/no_uring.h"

static bool hangs_up(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd};

	return poll(&p, 1, timeout_ms) == 1 && (p.revents & POLLHUP);
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1 && (p.revents & POLLIN);
}

static void count_done(struct tarn_io_request *req)
{
	req->addr = NULL; /* shows that it was called */
}

/* The pipe ends when the engine does, not when the caller's copy is closed;
 * and when the process is killed instead. */
static void test_keep(const char *name)
{
	int fds[2], go[2];
	struct tarn_io *io;
	char c;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		bail("pipe2: %m");
	io = engine(name, fds[1]);
	close(fds[1]);
	ok(!hangs_up(fds[0], 50), "%s: the engine holds keep_fd open", name);
	tarn_io_free(io);
	ok(hangs_up(fds[0], 60000),
		"%s: the engine closes keep_fd when it is freed", name);
	close(fds[0]);

	if (pipe2(fds, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		bail("pipe2: %m");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		io = engine(name, fds[1]);
		close(fds[1]);
		if (write(go[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(fds[1]);
	close(go[1]);
	is_int(1, read(go[0], &c, 1), "%s: a child makes an engine", name);
	ok(!hangs_up(fds[0], 50), "%s: a child's engine holds keep_fd open",
		name);
	kill(pid, SIGKILL);
	ok(hangs_up(fds[0], 60000),
		"%s: keep_fd is closed when the child is killed", name);
	waitpid(pid, NULL, 0);
	close(go[0]);
	close(fds[0]);
}

static void test_poll(const char *name)
{
	_cleanup_io_ struct tarn_io *io = engine(name, -1);
	struct tarn_io_request req[TARN_IO_DEPTH], more = {0};
	char byte[TARN_IO_DEPTH] = {0};
	struct files fs;
	unsigned left = 0;
	int file, queued = 0, reaped = 0;

	tarn_io_watch(io);
	make_file(&fs, "poll", TARN_IO_DEPTH);
	file = tarn_io_add_file(io, fs.buffered);
	for (unsigned i = 0; i < TARN_IO_DEPTH; i++) {
		req[i] = (struct tarn_io_request) {
			.file = file,
			.buffer = -1,
			.offset = i,
			.addr = &byte[i],
			.size = 1,
			.done = count_done,
		};
		queued += tarn_io_read(io, &req[i]) == 0;
	}
	is_int(TARN_IO_DEPTH, queued,
		"%s: as many requests are queued as the depth", name);
	is_int(1, tarn_io_read(io, &more),
		"%s: one request beyond the depth is refused", name);
	ok(!readable(tarn_io_fd(io), 0),
		"%s: no request is reaped before it is submitted", name);
	reaped = tarn_io_submit_and_wait(io, 0, -1);
	while (reaped < TARN_IO_DEPTH && readable(tarn_io_fd(io), 60000))
		reaped += tarn_io_submit_and_wait(io, 0, -1);
	is_int(TARN_IO_DEPTH, reaped,
		"%s: poll reports completions until all are reaped", name);
	ok(!readable(tarn_io_fd(io), 0),
		"%s: poll is quiet after all requests were reaped", name);
	for (unsigned i = 0; i < TARN_IO_DEPTH; i++)
		left += req[i].addr || req[i].res != 1 ||
			(unsigned char)byte[i] != byte_at(i);
	is_int(0, left, "%s: each request's callback is called with its byte",
		name);
	is_int(0, tarn_io_submit_and_wait(io, 5, -1),
		"%s: a wait for nothing does not hang", name);
	tarn_io_drop_file(io, file);
	drop_files(&fs);
}

/* Runs one request to its end; what it came to. */
static int32_t run_one(struct tarn_io *io, struct tarn_io_request *req,
	int (*queue)(struct tarn_io *, struct tarn_io_request *))
{
	req->done = count_done;
	if (queue(io, req) != 0 || tarn_io_submit_and_wait(io, 1, -1) != 1)
		return INT32_MIN;
	return req->res;
}

/* A request goes either way, to either side, from either kind of memory. */
static void test_write(const char *name)
{
	_cleanup_io_ struct tarn_io *io = engine(name, -1);
	static unsigned char page[2][4096] __attribute__((aligned(4096)));
	struct tarn_io_request req = {.size = 4096};
	unsigned char seen[4096];
	struct files fs;
	int fd;

	make_file(&fs, "write", 3 * 4096);
	fd = open(fs.path, O_WRONLY | O_CLOEXEC | O_DIRECT);
	for (int i = 0; i < 4; i++) {
		bool direct = i & 1, registered = i & 2;

		if (direct && fd < 0) {
			skip(2, "no direct I/O in %s", test_tmpdir());
			continue;
		}
		memset(page, 'a' + i, sizeof(page));
		if (registered && tarn_io_register(io, 5, page, sizeof(page)))
			registered = false;
		req.file = tarn_io_add_file(io, direct ? fd : fs.buffered);
		req.buffer = registered ? 5 : -1;
		req.offset = 4096;
		req.addr = page[1];
		is_int(4096, run_one(io, &req, tarn_io_write),
			"%s: a page is written%s%s", name,
			direct ? ", directly" : "",
			registered ? ", from a registered buffer" : "");
		if (pread(fs.buffered, seen, 4096, 4096) != 4096)
			bail("pread: %m");
		is_mem(page[0], seen, 4096,
			"%s: the written page is in the file", name);
		tarn_io_drop_file(io, req.file);
		if (registered)
			tarn_io_unregister(io, 5);
	}
	if (pread(fs.buffered, seen, 4096, 8192) != 4096)
		bail("pread: %m");
	is_mem(text() + 8192, seen, 4096,
		"%s: bytes beside the written page are unchanged", name);

	req.file = tarn_io_add_file(io, fs.buffered);
	req.buffer = -1;
	req.offset = 3 * 4096 + 5;
	req.addr = page[0];
	is_int(4096, run_one(io, &req, tarn_io_write),
		"%s: a page is written past the file's end", name);
	req.addr = page[1];
	memset(page[1], 0, 4096);
	is_int(4096, run_one(io, &req, tarn_io_read),
		"%s: the same request reads the page again", name);
	is_mem(page[0], page[1], 4096,
		"%s: the page that is read is the one that was written", name);
	tarn_io_drop_file(io, req.file);
	fd_close(fd);
	drop_files(&fs);
}

static void test_write_refused(const char *name)
{
	_cleanup_io_ struct tarn_io *io = engine(name, -1);
	struct tarn_io_request req = {.buffer = -1, .size = 4096};
	static char page[4096];
	struct files fs;
	int fd;

	make_file(&fs, "refused", 1);
	fd = open(fs.path, O_RDONLY | O_CLOEXEC);
	req.file = tarn_io_add_file(io, fd);
	req.addr = page;
	is_int(-EBADF, run_one(io, &req, tarn_io_write),
		"%s: a write to a file that is open for reading fails", name);
	tarn_io_drop_file(io, req.file);
	fd_close(fd);
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		skip(1, "/dev/full: %m");
	} else {
		req.file = tarn_io_add_file(io, fd);
		req.addr = page;
		is_int(-ENOSPC, run_one(io, &req, tarn_io_write),
			"%s: a write to a full disk is ENOSPC", name);
		tarn_io_drop_file(io, req.file);
		fd_close(fd);
	}
	drop_files(&fs);
}

static void test_slots(const char *name)
{
	_cleanup_io_ struct tarn_io *io = engine(name, -1);
	int n = 0, last = -1, r;
	static char page[4096] __attribute__((aligned(4096)));

	while (n <= TARN_IO_FILES && (r = tarn_io_add_file(io, 0)) >= 0) {
		last = r;
		n++;
	}
	is_int(TARN_IO_FILES, n,
		"%s: the engine takes as many files as it has slots", name);
	is_int(-EMFILE, r, "%s: one file beyond the slots is EMFILE", name);
	tarn_io_drop_file(io, last);
	is_int(last, tarn_io_add_file(io, 0),
		"%s: a slot that was dropped is used again", name);
	tarn_io_drop_file(io, 3);
	is_int(-EBADF, tarn_io_add_file(io, 12345),
		"%s: adding a descriptor that is not open is EBADF", name);
	is_int(-EINVAL, tarn_io_register(io, TARN_IO_BUFFERS, page, 4096),
		"%s: registering a buffer in an unknown slot is refused", name);
	is_int(-EINVAL, tarn_io_register(io, 0, page, 0),
		"%s: registering an empty buffer is refused", name);
	is_int(-EINVAL, tarn_io_register(io, 0, page, TARN_IO_BUFFER_MAX + 1ul),
		"%s: registering a buffer that is too large is refused", name);
	is_int(-EINVAL, tarn_io_unregister(io, 0),
		"%s: a slot without a buffer cannot be unregistered", name);
}

static void test_register(void)
{
	_cleanup_io_ struct tarn_io *io = engine("io_uring", -1);
	static char page[4096] __attribute__((aligned(4096)));

	if (!is_int(0, tarn_io_register(io, 1023, page, 4096),
		    "a buffer is registered in the last slot"))
		diag("%s", tarn_fail_message());
	is_int(-EBUSY, tarn_io_register(io, 1023, page, 4096),
		"a slot with a buffer cannot be registered again");
	is_int(0, tarn_io_unregister(io, 1023),
		"a registered buffer is unregistered");
	is_int(0, tarn_io_register(io, 1023, page, 4096),
		"a slot that was released is registered again");
	is_int(-EFAULT, tarn_io_register(io, 0, (void *)4096, 4096),
		"memory that is not mapped cannot be registered");
}

/* Runs in a child what would spoil the parent; its exit status. */
static int in_child(int (*f)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(f());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

enum { CANNOT = 77 };

static int poor_in_memlock(void)
{
	/* Enough for the ring itself, which some kernels count too. */
	struct rlimit little = {SEGMENT / 4, SEGMENT / 4};
	struct tarn_io *io;
	void *p = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (setrlimit(RLIMIT_MEMLOCK, &little) < 0)
		return CANNOT;
	if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		return CANNOT;
	io = engine("io_uring", -1);
	if (!io)
		return CANNOT;
	if (tarn_io_register(io, 0, p, SEGMENT) != 1)
		return 1;
	if (!strstr(tarn_fail_message(), "memlock"))
		return 2;
	tarn_io_free(io);
	return 0;
}

static int in_a_container(void)
{
	struct tarn_io *io;

	if (refuse_io_uring() < 0)
		return CANNOT;
	io = engine("auto", -1);
	if (!io || strcmp(tarn_io_name(io), "threads"))
		return 1;
	/* EPERM here; ENOSYS in a build that has no io_uring. */
	if (!strstr(tarn_io_why(io), "io_uring is "))
		return 2;
	tarn_io_free(io);
	setenv("TARN_ENGINE", "io_uring", 1);
	return tarn_io_new(-1, &io) < 0 ? 0 : 3;
}

static void test_child(int (*f)(void), const char *what)
{
	int status = in_child(f);

	if (status == CANNOT)
		skip(1, "%s: cannot be arranged here", what);
	else
		is_int(0, status, "an engine works where %s", what);
}

static void test_choice(void)
{
	struct tarn_io *io = engine("threads", -1);

	is_str("threads", tarn_io_name(io),
		"TARN_ENGINE=threads selects the engine of threads");
	is_str("TARN_ENGINE=threads was asked for", tarn_io_why(io),
		"the engine says that TARN_ENGINE selected it");
	tarn_io_free(io);
	ok(!engine("turbo", -1), "TARN_ENGINE=turbo is refused");
	has_str("auto, io_uring or threads", tarn_fail_message(),
		"the error names the engines that exist");
	io = engine("auto", -1);
	ok(io, "an engine 'auto' always exists");
	is_int(!strcmp(tarn_io_name(io), "io_uring"), !*tarn_io_why(io),
		"the engine is io_uring, or says why it is not");
	tarn_io_free(io);
	ok(!tarn_io_free(NULL), "freeing NULL returns NULL");
	test_child(in_a_container, "io_uring is refused with EPERM");
}

int main(void)
{
	/* Assertions about each engine, and about io_uring alone. */
	enum { EACH = 34, IO_URING = 6 };
	static const char *const names[] = {"threads", "io_uring"};

	test_choice();
	for (unsigned i = 0; i < 2; i++) {
		struct tarn_io *io = engine(names[i], -1);

		if (!io) {
			skip(i == 1 ? EACH + IO_URING : EACH, "%s: %s",
				names[i], tarn_fail_message());
			continue;
		}
		tarn_io_free(io);
		test_keep(names[i]);
		test_poll(names[i]);
		test_slots(names[i]);
		test_write(names[i]);
		test_write_refused(names[i]);
		if (i == 1) {
			test_register();
			test_child(poor_in_memlock, "no memory may be locked");
		}
	}
	return done(82);
}
