/* SPDX-License-Identifier: MIT */
/*
 * The server's end of loaders.
 *
 * A loader knows the segments that existed when it was forked. When newer ones
 * are needed the keeper forks another; the old one gets no new jobs and ends
 * when its last is done. A loader that dies leaves a pipe, which ends when the
 * kernel has stopped writing for that loader; until then no storage gets the
 * ranges that it was filling.
 */
#include "daemon/server/server.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"

#define LOADER_QUEUE_MAX (16u << 20) /* requests to a loader that hangs */
#define ALONE_MAX 16u                /* with one job each, of a uid; picked */
#define SHORT_NS 10000000ull         /* picked: others read meanwhile */

static void end_pause(struct loader *loader)
{
	deadline_set(loop_deadlines(loader->domain->server->loop),
		&loader->again, 0);
}

static void loader_free(struct loader *loader)
{
	struct loader **p;

	for (p = &loader->domain->loading.loaders; *p && *p != loader;
		p = &(*p)->next)
		;
	if (*p)
		*p = loader->next;
	end_pause(loader);
	loop_unwatch(loader->watch);
	loop_unwatch(loader->pipe_watch);
	fd_close(loader->sock);
	fd_close(loader->pipe_fd);
	wire_writer_free(loader->writer);
	segments_unmap(loader->domain, &loader->mapper);
	free(loader);
}

void loader_free_all(struct domain *domain)
{
	while (domain->loading.loaders)
		loader_free(domain->loading.loaders);
}

/* ---- death -------------------------------------------------------------- */

/* Nothing of it is in flight: the keeper may forget its pipe, too. */
static void loader_gone(struct loader *loader)
{
	struct server *server = loader->domain->server;
	struct msg_loader gone = {.number = loader->number};

	loader_free(loader);
	server_send_keeper(server, D_LOADER_GONE, &gone, sizeof(gone), NULL, 0);
}

bool loader_writes(const struct domain *domain, uint32_t number)
{
	for (const struct loader *l = domain->loading.loaders; l; l = l->next)
		if (l->number == number)
			return true;
	return false;
}

/* The pipe's last write end is gone: with the process, and with its ring. */
static void on_pipe(void *arg, unsigned ready)
{
	struct loader *loader = arg;
	struct domain *domain = loader->domain;

	if (!(ready & (LOOP_HANGUP | LOOP_READ)) || loader->sock >= 0)
		return;
	storage_end_quarantine(domain, loader->number);
	loader_gone(loader);
	load_go_on(domain);
}

static void watch_pipe(struct loader *loader)
{
	if (loop_watch(loader->domain->server->loop, loader->pipe_fd, LOOP_READ,
		    on_pipe, loader, &loader->pipe_watch) < 0)
		log_error("quarantine_stays", log_i64("pid", loader->pid),
			log_text("error", tarn_fail_message()));
}

void loader_died(struct loader *loader)
{
	struct domain *domain = loader->domain;
	struct load *load, *next;

	if (loader->n_jobs || !loader->retired)
		log_warning("loader_gone", log_i64("pid", loader->pid),
			log_u64("jobs", loader->n_jobs));
	loader->retired = true;
	end_pause(loader);
	loader->watch = loop_unwatch(loader->watch);
	loader->sock = fd_close(loader->sock);
	loader->mapper.mute = true;
again:
	for (load = domain->loading.loads; load; load = next) {
		next = load->next;
		if (load->loader == loader) {
			/* It may end others with it: start over. */
			load_lost(load);
			goto again;
		}
	}
	watch_pipe(loader);
}

/* ---- messages ------------------------------------------------------------ */

static void take_failed(struct load *load, const struct wire_message *m)
{
	const struct msg_failed *failed = (const struct msg_failed *)m->body;

	tarn_fail(failed->error, "%s: %.*s", load->label,
		(int)(m->size - sizeof(*failed)), failed->text);
	if (load->state == LOAD_DROPPING)
		load_dropped(load);
	else
		load_failed(load, failed->error);
}

static void take_answer(struct loader *loader, const struct wire_message *m)
{
	static const uint32_t sizes[] = {
		[L_IDENTITY - L_IDENTITY] = sizeof(struct msg_identity),
		[L_PROGRESS - L_IDENTITY] = sizeof(struct msg_progress),
		[L_DONE - L_IDENTITY] = sizeof(struct msg_filled),
		[L_FAILED - L_IDENTITY] = sizeof(struct msg_failed),
		[L_DROPPED - L_IDENTITY] = sizeof(struct msg_job),
		[L_FORGOTTEN - L_IDENTITY] = sizeof(struct msg_forget),
	};
	struct load *load;

	if (m->type < L_IDENTITY || m->type > L_FORGOTTEN ||
		m->size < sizes[m->type - L_IDENTITY]) {
		log_error("loader_garbage", log_i64("pid", loader->pid),
			log_u64("type", m->type), log_u64("bytes", m->size));
		return;
	}
	if (m->type == L_FORGOTTEN)
		return segments_forgotten(loader->domain, &loader->mapper,
			((struct msg_forget *)m->body)->number);
	load = load_by_job(loader->domain, ((struct msg_job *)m->body)->job);
	if (!load || load->loader != loader)
		return; /* it was dropped meanwhile */
	load->reading.asked_at = 0;
	load->reading.last_message_at = loop_now();
	switch (m->type) {
	case L_IDENTITY:
		return load_identified(load, (struct msg_identity *)m->body);
	case L_PROGRESS:
		return load_progress(
			load, ((struct msg_progress *)m->body)->bytes);
	case L_DONE:
		if (load->state == LOAD_DROPPING)
			return load_dropped(load);
		return load_filled(load, (struct msg_filled *)m->body);
	case L_FAILED:
		return take_failed(load, m);
	default:
		return load_dropped(load);
	}
}

static void on_loader(void *arg, unsigned ready);

static void send_on(void *arg)
{
	on_loader(arg, LOOP_WRITE);
}

/* As wire_flush. Memory, or a place for descriptors in flight, may be short: a
 * socket that has room would be told of without end meanwhile. */
static int flush(struct loader *loader)
{
	int r = wire_flush(loader->writer, loader->sock);

	if (!wire_is_short(r))
		return r;
	deadline_call(loop_deadlines(loader->domain->server->loop),
		&loader->again, loop_now() + SHORT_NS, send_on, loader);
	return 1;
}

/* As wire_receive. */
static int receive(struct loader *loader)
{
	struct wire_message m = {0};
	int r = wire_receive(loader->sock, NULL, &m);

	if (r == 1)
		take_answer(loader, &m);
	wire_message_clear(&m);
	return r;
}

static void take_event(struct loader *loader, unsigned ready)
{
	int r = 0;

	loader->busy = true;
	if (ready & LOOP_WRITE)
		r = flush(loader);
	if (r == 1)
		loop_change(loader->watch, LOOP_READ);
	if (r >= 0 && ready & (LOOP_READ | LOOP_HANGUP)) {
		r = receive(loader);
	} else if (r < 0) {
		/* It is dead, but what it did before is done: its answers are
		 * in the socket, and nobody will send them again. */
		while (receive(loader) == 1)
			;
	}
	loader->busy = false;
	if (r < 0 && r != -EAGAIN && r != -ENOBUFS)
		return loader_died(loader);
	if (loader->retired && loader->n_jobs == 0)
		loader_gone(loader);
}

/* What its answers lead to, such as a commit of many names, is the time of the
 * user whose files it reads. */
static void on_loader(void *arg, unsigned ready)
{
	struct loader *loader = arg;
	struct domain *user = loader->user;
	uint64_t began = loop_now();

	take_event(loader, ready);
	quantum_spend(user, began);
}

int loader_command(struct loader *loader, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	int r;

	if (loader->sock < 0)
		return tarn_fail(EPIPE, "the loader is gone");
	r = wire_push(
		loader->writer, WIRE_OUT_FDS(type, 0, body, size, fds, n_fds));
	if (r < 0)
		return r; /* the loader will never receive it */
	/* A dead one is noticed by its watch. */
	r = wire_flush(loader->writer, loader->sock);
	loop_change(loader->watch, r == 1 ? LOOP_READ : LOOP_READ | LOOP_WRITE);
	return 0;
}

/* ---- coming and going ---------------------------------------------------- */

/* Those that have one job and get no other. */
static uint32_t count_alone(
	const struct domain *domain, const struct domain *user)
{
	uint32_t n = 0;

	for (const struct loader *l = domain->loading.loaders; l; l = l->next)
		n += l->alone && l->user == user;
	return n;
}

static bool suits(const struct loader *loader, const struct load *load,
	uint32_t n_segments)
{
	return loader->user == load->user && !loader->retired &&
	       loader->mapper.n_segments >= n_segments && !loader->alone &&
	       !(load->reading.alone && loader->n_jobs);
}

/* The keeper is asked for one at a time: when that has come, loads that wait
 * for another ask again. */
int loader_for(
	const struct load *load, uint32_t n_segments, struct loader **ret)
{
	struct domain *domain = load->domain, *user = load->user;
	struct msg_loader want = {
		.domain = domain->number, .uid = user->spec.uid};
	int r = 0;

	/* It waits until one of them has ended: loader_job_done. */
	if (load->reading.alone && count_alone(domain, user) >= ALONE_MAX)
		return 0;
	for (struct loader *l = domain->loading.loaders; l; l = l->next)
		if (suits(l, load, n_segments)) {
			l->alone = load->reading.alone;
			*ret = l;
			return 1;
		}
	if (!domain->loading.loader_wanted)
		r = server_send_keeper(
			domain->server, D_LOADER, &want, sizeof(want), NULL, 0);
	domain->loading.loader_wanted = r == 0;
	return r;
}

/* The queue for a loader contains clients' files. */
static void close_for(void *arg, int fd)
{
	closer_close(arg, fd);
}

static void retire(struct loader *loader)
{
	loader->retired = true;
	if (loader->n_jobs == 0 && loader->sock >= 0)
		loader_gone(loader);
}

void loader_job_done(struct loader *loader)
{
	if (--loader->n_jobs > 0)
		return;
	/* Loads that need a loader alone may wait for this one's end. */
	loader->domain->loading.loader_free |= loader->alone;
	loader->alone = false;
	if (loader->retired && loader->sock >= 0 && !loader->busy)
		loader_gone(loader);
}

/* There will be none: fails the loads that waited for it. */
static void no_loader(struct domain *domain, const struct domain *user,
	int error, const char *why)
{
	struct load *load;

	do {
		for (load = domain->loading.loads; load; load = load->next)
			if (load->state == LOAD_NEW && load->user == user)
				break;
		tarn_fail_constant(error, why);
		if (load)
			load_failed(load, error);
	} while (load);
	load_go_on(domain);
}

static void forget(struct segment_mapper *mapper, uint32_t number)
{
	struct loader *loader =
		(struct loader *)((char *)mapper -
				  offsetof(struct loader, mapper));
	struct msg_forget body = {.number = number};

	loader_command(loader, L_FORGET, &body, sizeof(body), NULL, 0);
}

static struct loader *loader_new(struct domain *domain, struct domain *user,
	const struct msg_loader *from, int sock, int pipe_fd)
{
	struct loader *loader = calloc(1, sizeof(*loader));

	if (!loader) {
		tarn_fail(ENOMEM, "out of memory");
		fd_close(sock);
		fd_close(pipe_fd);
		return NULL;
	}
	loader->domain = domain;
	loader->user = user ? user : domain;
	loader->pid = from->pid;
	loader->number = from->number;
	loader->mapper.forget = forget;
	loader->mapper.n_segments = from->n_segments;
	loader->mapper.mute = sock < 0;
	loader->sock = sock;
	loader->pipe_fd = pipe_fd;
	return loader;
}

/* Both ways of its socket. */
static int connect_to(struct loader *loader)
{
	struct server *server = loader->domain->server;
	int r = wire_writer_new(LOADER_QUEUE_MAX, &loader->writer);

	if (r < 0)
		return r;
	wire_writer_set_close(loader->writer, close_for, loader->user->closer);
	return loop_watch(server->loop, loader->sock, LOOP_READ, on_loader,
		loader, &loader->watch);
}

int loader_come(struct domain *domain, const struct msg_loader *from, int sock,
	int pipe_fd)
{
	struct domain *user = domain_of_user(domain->server, from->uid);
	struct loader *loader, *l, *next;
	int r;

	if (from->pid == 0) {
		no_loader(domain, user, EAGAIN,
			"no loader process could be started; is there a limit "
			"on processes?");
		return 0;
	}
	loader = loader_new(domain, user, from, sock, pipe_fd);
	r = loader ? connect_to(loader) : -ENOMEM;
	if (r < 0) {
		/* It was given nothing to do, and ends with its socket. */
		if (loader)
			loader_free(loader);
		server_send_keeper(domain->server, D_LOADER_GONE, from,
			sizeof(*from), NULL, 0);
		no_loader(domain, user, -r,
			"the daemon has no memory for one more loader process");
		return 0;
	}
	for (l = domain->loading.loaders; l; l = next) {
		next = l->next;
		if (l->user == loader->user)
			retire(l);
	}
	loader->next = domain->loading.loaders;
	domain->loading.loaders = loader;
	segments_map(domain, &loader->mapper);
	load_go_on(domain);
	return 0;
}

/* Its server died, so it ends by itself; what it was filling was dropped. */
int loader_left(
	struct domain *domain, const struct msg_loader *from, int pipe_fd)
{
	struct loader *loader = loader_new(domain, domain, from, -1, pipe_fd);

	if (!loader)
		return -ENOMEM;
	loader->retired = true;
	loader->next = domain->loading.loaders;
	domain->loading.loaders = loader;
	segments_map(domain, &loader->mapper);
	watch_pipe(loader);
	return 0;
}
