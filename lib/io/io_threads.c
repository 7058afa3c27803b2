/* SPDX-License-Identifier: MIT */
/*
 * The thread engine: a few threads that take requests from one list, pread or
 * pwrite them, and put them on another. Two habits keep it cheap: the lists are
 * made of the requests themselves, and the waiting side is woken once for a
 * batch, not once for a request.
 *
 * One lock guards the fields marked below; the others belong to the owner's
 * thread.
 */
#include "lib/io/io.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/io/io_engine.h"

/* Direct reads of 512 KiB keep a local disk busy from about four on; more
 * threads would only compete for the CPUs that the clients need. */
enum { THREADS = 4 };

struct list {
	struct tarn_io_request *head, **tail;
};

struct threads {
	struct tarn_io io;
	struct list queued; /* not yet handed to the threads */
	pthread_t thread[THREADS];
	unsigned started;
	int event_fd; /* readable while ready is not empty */
	int keep_fd;

	pthread_mutex_t lock;
	pthread_cond_t work;              /* todo has something, or stop */
	pthread_cond_t enough;            /* ready_count reached wanted */
	struct list todo, ready;          /* lock */
	unsigned todo_count, ready_count; /* lock */
	unsigned idle;                    /* lock; threads that wait for work */
	unsigned wanted;                  /* lock; 0: the owner does not wait */
	bool stop;                        /* lock */
	int fd[TARN_IO_FILES]; /* a slot is not changed while in use */
};

static struct threads *threads_of(const struct tarn_io *io)
{
	return (struct threads *)io; /* the head of it */
}

static void list_clear(struct list *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

static void list_put(struct list *l, struct tarn_io_request *req)
{
	req->next = NULL;
	*l->tail = req;
	l->tail = &req->next;
}

static struct tarn_io_request *list_take(struct list *l)
{
	struct tarn_io_request *req = l->head;

	l->head = req->next;
	if (!l->head)
		l->tail = &l->head;
	return req;
}

/* Moves all of from to the end of to. */
static void list_move(struct list *to, struct list *from)
{
	if (!from->head)
		return;
	*to->tail = from->head;
	to->tail = from->tail;
	list_clear(from);
}

static ssize_t transfer(const struct threads *t, struct tarn_io_request *req)
{
	int fd = t->fd[req->file];
	off_t at = (off_t)req->offset;

	return req->write ? pwrite(fd, req->addr, req->size, at)
			  : pread(fd, req->addr, req->size, at);
}

/* With the lock held, which it releases during the I/O. */
static void serve_one(struct threads *t)
{
	struct tarn_io_request *req = list_take(&t->todo);
	uint64_t one = 1;
	ssize_t n;

	t->todo_count--;
	pthread_mutex_unlock(&t->lock);
	n = transfer(t, req);
	req->res = n < 0 ? -errno : (int32_t)n;
	pthread_mutex_lock(&t->lock);

	list_put(&t->ready, req);
	if (t->ready_count++ == 0 && write(t->event_fd, &one, 8) != 8)
		abort(); /* one counter, one writer: it cannot be full */
	if (t->wanted && t->ready_count >= t->wanted) {
		t->wanted = 0;
		pthread_cond_signal(&t->enough);
	}
}

static void *run_thread(void *arg)
{
	struct threads *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		if (t->todo.head) {
			serve_one(t);
			continue;
		}
		t->idle++;
		pthread_cond_wait(&t->work, &t->lock);
		t->idle--;
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Signals are left to the program's own threads. */
static bool start_thread(struct threads *t)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&t->thread[t->started], NULL, run_thread, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r == 0)
		t->started++;
	return r == 0;
}

/* Hands over the queued requests; starts threads for work that no idle one
 * could take. */
static void submit(struct threads *t)
{
	unsigned count = 0, idle;

	if (!t->queued.head)
		return;
	for (struct tarn_io_request *r = t->queued.head; r; r = r->next)
		count++;
	pthread_mutex_lock(&t->lock);
	list_move(&t->todo, &t->queued);
	t->todo_count += count;
	count = t->todo_count;
	idle = t->idle;
	if (count >= idle)
		pthread_cond_broadcast(&t->work);
	else
		for (unsigned i = 0; i < count; i++)
			pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
	while (idle < count && t->started < THREADS && start_thread(t))
		idle++;
}

static void await(struct threads *t, unsigned n, int timeout_ms)
{
	struct timespec until;
	int r = 0;

	/* If no thread could be started, the caller does the work itself. */
	while (t->started == 0 && t->todo.head)
		serve_one(t);
	if (timeout_ms >= 0) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += timeout_ms / 1000;
		until.tv_nsec += timeout_ms % 1000 * 1000000L;
		if (until.tv_nsec >= 1000000000L) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000L;
		}
	}
	while (t->ready_count < n && r != ETIMEDOUT) {
		t->wanted = n;
		r = timeout_ms < 0 ? pthread_cond_wait(&t->enough, &t->lock)
				   : pthread_cond_timedwait(
					     &t->enough, &t->lock, &until);
	}
	t->wanted = 0;
}

static int threads_wait(struct tarn_io *io, unsigned n, int timeout_ms)
{
	struct threads *t = threads_of(io);
	struct list ready;
	uint64_t count;

	list_clear(&ready);
	submit(t);
	pthread_mutex_lock(&t->lock);
	await(t, n, timeout_ms);
	if (t->ready.head && read(t->event_fd, &count, 8) != 8)
		abort(); /* written when the first request became ready */
	list_move(&ready, &t->ready);
	t->ready_count = 0;
	pthread_mutex_unlock(&t->lock);

	while (ready.head) {
		struct tarn_io_request *req = list_take(&ready);

		tarn_io_done(io, req, req->res);
	}
	return 0;
}

static void threads_start(struct tarn_io *io)
{
	submit(threads_of(io));
}

static void threads_queue(struct tarn_io *io, struct tarn_io_request *req)
{
	list_put(&threads_of(io)->queued, req);
}

static int threads_fd(struct tarn_io *io)
{
	return threads_of(io)->event_fd;
}

static int threads_set_file(struct tarn_io *io, unsigned slot, int fd)
{
	int copy = fd_dup(fd);

	if (copy < 0)
		return tarn_fail(-copy,
			"descriptor %d cannot be duplicated: %s", fd,
			tarn_errno_text(-copy));
	threads_of(io)->fd[slot] = copy;
	return 0;
}

static void threads_clear_file(struct tarn_io *io, unsigned slot)
{
	int *fd = &threads_of(io)->fd[slot];

	if (io->close)
		io->close(io->close_arg, fd_steal(fd));
	else
		*fd = fd_close(*fd);
}

static int threads_set_buffer(
	struct tarn_io *io, unsigned slot, void *addr, size_t size)
{
	tarn_fail(ENOTSUP, "the thread engine registers no buffers");
	return 1;
}

static int threads_clear_buffer(struct tarn_io *io, unsigned slot)
{
	return 0;
}

static void threads_free(struct tarn_io *io)
{
	struct threads *t = threads_of(io);

	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < t->started; i++)
		pthread_join(t->thread[i], NULL);
	for (unsigned i = 0; i < TARN_IO_FILES; i++)
		fd_close(t->fd[i]);
	fd_close(t->event_fd);
	fd_close(t->keep_fd); /* last: no thread writes memory any more */
	pthread_cond_destroy(&t->enough);
	pthread_cond_destroy(&t->work);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static const struct tarn_io_engine threads_engine = {
	.name = "threads",
	.free = threads_free,
	.fd = threads_fd,
	.set_file = threads_set_file,
	.clear_file = threads_clear_file,
	.set_buffer = threads_set_buffer,
	.clear_buffer = threads_clear_buffer,
	.queue = threads_queue,
	.start = threads_start,
	.wait = threads_wait,
};

static void init_sync(struct threads *t)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	pthread_cond_init(&t->enough, &attr);
	pthread_condattr_destroy(&attr);
}

int tarn_io_threads_new(int keep_fd, struct tarn_io **ret_io)
{
	struct threads *t = calloc(1, sizeof(*t));

	if (!t)
		return tarn_fail(ENOMEM, "no memory for an I/O engine");
	t->io.engine = &threads_engine;
	list_clear(&t->queued);
	list_clear(&t->todo);
	list_clear(&t->ready);
	for (unsigned i = 0; i < TARN_IO_FILES; i++)
		t->fd[i] = -1;
	init_sync(t);
	t->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->keep_fd = keep_fd < 0 ? -1 : fd_dup(keep_fd);
	if (t->event_fd < 0 || (keep_fd >= 0 && t->keep_fd < 0)) {
		int err = t->event_fd < 0 ? errno : -t->keep_fd;

		t->keep_fd = MAX(t->keep_fd, -1);
		threads_free(&t->io);
		return tarn_fail(err,
			"the thread engine gets no descriptor: %s",
			tarn_errno_text(err));
	}
	*ret_io = &t->io;
	return 0;
}
