/* SPDX-License-Identifier: MIT */
/*
 * The server's end of loaders.
 *
 * A loader knows the segments that existed when it was forked. When newer ones
 * are needed the keeper forks another; the old one gets no new jobs and ends
 * when its last is done. A loader that dies leaves a pipe whose end tells when
 * the kernel has stopped writing for it; until then the ranges that it was
 * filling are nobody's.
 */
#include "daemon/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"

#define LOADER_QUEUE_MAX (16u << 20) /* requests to a loader that hangs */
#define HUNG_NS 3000000000ull        /* a slow disk answers sooner; picked */
#define HUNG_MAX 16u /* processes that a uid may leave hanging */

static void loader_free(struct loader *loader)
{
	struct rule *rule = loader->rule;
	bool awaited = loader->n_forgetting > 0;
	struct loader **p;

	for (p = &loader->rule->loaders; *p && *p != loader; p = &(*p)->next)
		;
	if (*p)
		*p = loader->next;
	loop_unwatch(loader->watch);
	loop_unwatch(loader->pipe_watch);
	fd_close(loader->sock);
	fd_close(loader->pipe_fd);
	wire_reader_free(loader->reader);
	wire_writer_free(loader->writer);
	free(loader->forgetting);
	free(loader);
	if (awaited)
		segments_settle(rule);
}

void loader_free_all(struct rule *rule)
{
	while (rule->loaders)
		loader_free(rule->loaders);
}

/* ---- death -------------------------------------------------------------- */

/* Nothing of it is in flight: the keeper may forget its pipe, too. */
static void loader_gone(struct loader *loader)
{
	struct server *server = loader->rule->server;
	struct msg_loader gone = {.number = loader->number};

	loader_free(loader);
	server_tell_keeper(server, D_LOADER_GONE, &gone, sizeof(gone), NULL, 0);
}

bool loader_writes(const struct rule *rule, uint32_t number)
{
	for (const struct loader *l = rule->loaders; l; l = l->next)
		if (l->number == number)
			return true;
	return false;
}

/* The pipe's last write end is gone: with the process, and with its ring. */
static void on_pipe(void *arg, unsigned ready)
{
	struct loader *loader = arg;
	struct rule *rule = loader->rule;

	if (!(ready & (LOOP_HANGUP | LOOP_READ)) || loader->sock >= 0)
		return;
	storage_end_quarantine(rule, loader->number);
	loader_gone(loader);
	load_go_on(rule);
}

static void watch_pipe(struct loader *loader)
{
	if (loop_watch(loader->rule->server->loop, loader->pipe_fd, LOOP_READ,
		    on_pipe, loader, &loader->pipe_watch) < 0)
		log_error("quarantine_stays", log_i64("pid", loader->pid),
			log_text("error", tarn_fail_message()));
}

static void loader_died(struct loader *loader)
{
	struct rule *rule = loader->rule;
	struct load *load, *next;

	if (loader->n_jobs || !loader->retired)
		log_warning("loader_gone", log_i64("pid", loader->pid),
			log_u64("jobs", loader->n_jobs));
	loader->retired = true;
	loader->watch = loop_unwatch(loader->watch);
	loader->sock = fd_close(loader->sock);
again:
	for (load = rule->loads; load; load = next) {
		next = load->next;
		if (load->loader == loader) {
			/* It may end others with it: start over. */
			load_lost(load);
			goto again;
		}
	}
	watch_pipe(loader);
	server_look_around(rule->server);
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
		return segments_forgotten(
			loader, ((struct msg_forget *)m->body)->number);
	load = load_by_job(loader->rule, ((struct msg_job *)m->body)->job);
	if (!load || load->loader != loader)
		return; /* it was dropped meanwhile */
	load->asked_at = 0;
	load->heard_at = loop_now();
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

static void on_loader(void *arg, unsigned ready)
{
	struct loader *loader = arg;
	struct server *server = loader->rule->server;
	struct wire_message m = {0};
	int r = 0;

	loader->busy = true;
	if (ready & LOOP_WRITE)
		r = wire_flush(loader->writer, loader->sock);
	if (r == 1)
		loop_change(loader->watch, LOOP_READ);
	if (r >= 0 && ready & (LOOP_READ | LOOP_HANGUP)) {
		r = wire_receive(loader->reader, loader->sock, NULL, &m);
		if (r == 1)
			take_answer(loader, &m);
		wire_message_clear(&m);
	}
	loader->busy = false;
	if (r < 0 && r != -EAGAIN && r != -ENOBUFS)
		return loader_died(loader);
	if (loader->retired && loader->n_jobs == 0)
		loader_gone(loader);
	server_look_around(server);
}

int loader_tell(struct loader *loader, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	int r;

	if (loader->sock < 0)
		return tarn_fail(EPIPE, "the loader is gone");
	r = wire_push(loader->writer, type, 0, body, size, fds, n_fds);
	if (r < 0)
		return r; /* it will never hear of it */
	/* A dead one is noticed by its watch. */
	r = wire_flush(loader->writer, loader->sock);
	loop_change(loader->watch, r == 1 ? LOOP_READ : LOOP_READ | LOOP_WRITE);
	return 0;
}

/* ---- coming and going ---------------------------------------------------- */

/* The keeper is asked for one at a time: when that has come, who waits for
 * another asks again. */
int loader_for(struct rule *rule, struct rule *home, uint32_t n_segments,
	struct loader **ret)
{
	struct msg_loader want = {.rule = rule->number, .uid = home->spec.uid};
	int r = 0;

	for (struct loader *l = rule->loaders; l; l = l->next)
		if (l->home == home && !l->retired &&
			l->n_segments >= n_segments) {
			*ret = l;
			return 1;
		}
	if (!rule->loader_wanted)
		r = server_tell_keeper(
			rule->server, D_LOADER, &want, sizeof(want), NULL, 0);
	rule->loader_wanted = r == 0;
	return r;
}

/* ---- hanging ------------------------------------------------------------- */

/* The load whose L_FILE has waited longest; answers come in order. */
static struct load *first_asked(const struct loader *loader)
{
	struct load *load, *first = NULL;

	for (load = loader->rule->loads; load; load = load->next)
		if (load->loader == loader && load->asked_at &&
			(!first || load->job < first->job))
			first = load;
	return first;
}

static bool is_reading(const struct loader *loader)
{
	for (const struct load *l = loader->rule->loads; l; l = l->next)
		if (l->loader == loader && l->state == LOAD_FILLING)
			return true;
	return false;
}

/* It reads, and nothing has come of any of it for a while. */
static bool stalled(const struct loader *loader, uint64_t now)
{
	for (const struct load *l = loader->rule->loads; l; l = l->next)
		if (l->loader == loader && l->state == LOAD_FILLING &&
			now - l->heard_at < HUNG_NS)
			return false;
	return is_reading(loader);
}

static void move_others(struct loader *loader, struct load *first)
{
	struct load *load;

	do {
		for (load = loader->rule->loads; load; load = load->next)
			if (load->loader == loader && load != first &&
				load->asked_at)
				break;
		if (load)
			load_move(load);
	} while (load);
}

static void hang(struct loader *loader, struct load *first)
{
	bool reads = is_reading(loader);

	if (!loader->hung)
		log_warning("loader_hangs", log_i64("pid", loader->pid),
			log_u64("jobs", loader->n_jobs));
	loader->retired = true;
	loader->hung = true;
	loader->busy = true;
	if (first) {
		move_others(loader, first);
		/* It is the one in whose file the loader hangs, unless that is
		 * one of those being read: then it gets a second chance. */
		if (reads && !first->moved)
			load_move(first);
	}
	loader->busy = false;
	if (loader->n_jobs == 0 && loader->sock >= 0)
		loader_gone(loader);
}

static uint32_t count_hung(const struct loader *of)
{
	uint32_t n = 0;

	for (const struct loader *l = of->rule->loaders; l; l = l->next)
		n += l->hung && l->home == of->home;
	return n;
}

void loader_check(struct rule *rule, uint64_t now)
{
	struct loader *loader, *next;

	for (loader = rule->loaders; loader; loader = next) {
		struct load *first = first_asked(loader);

		next = loader->next;
		if (loader->sock < 0 ||
			(!loader->hung && count_hung(loader) >= HUNG_MAX))
			continue;
		/* Also one that was replaced for its reads may be found to
		 * owe an answer. */
		if (first && now - first->asked_at >= HUNG_NS)
			hang(loader, first);
		else if (!loader->retired && stalled(loader, now))
			hang(loader, NULL);
	}
}

/* What is queued for a loader are clients' files. */
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
	if (--loader->n_jobs == 0 && loader->retired && loader->sock >= 0 &&
		!loader->busy)
		loader_gone(loader);
}

/* There will be none: those who waited for it are told. */
static void no_loader(
	struct rule *rule, const struct rule *home, int error, const char *why)
{
	struct load *load;

	do {
		for (load = rule->loads; load; load = load->next)
			if (load->state == LOAD_NEW && load->home == home)
				break;
		tarn_fail_constant(error, why);
		if (load)
			load_failed(load, error);
	} while (load);
	load_go_on(rule);
}

static struct loader *loader_new(struct rule *rule, struct rule *home,
	const struct msg_loader *from, int sock, int pipe_fd)
{
	struct loader *loader = calloc(1, sizeof(*loader));

	if (!loader) {
		tarn_fail(ENOMEM, "out of memory");
		fd_close(sock);
		fd_close(pipe_fd);
		return NULL;
	}
	loader->rule = rule;
	loader->home = home ? home : rule;
	loader->pid = from->pid;
	loader->number = from->number;
	loader->n_segments = from->n_segments;
	loader->sock = sock;
	loader->pipe_fd = pipe_fd;
	return loader;
}

/* Both ways of its socket. */
static int connect_to(struct loader *loader)
{
	struct server *server = loader->rule->server;
	int r = wire_reader_new_beside(server->reader, &loader->reader);

	if (r == 0)
		r = wire_writer_new(LOADER_QUEUE_MAX, &loader->writer);
	if (r < 0)
		return r;
	wire_writer_set_close(loader->writer, close_for, loader->home->closer);
	return loop_watch(server->loop, loader->sock, LOOP_READ, on_loader,
		loader, &loader->watch);
}

int loader_come(
	struct rule *rule, const struct msg_loader *from, int sock, int pipe_fd)
{
	struct rule *home = rule_of_user(rule->server, from->uid);
	struct loader *loader, *l, *next;
	int r;

	if (from->pid == 0) {
		no_loader(rule, home, EAGAIN,
			"no loader process could be started; is there a limit "
			"on processes?");
		return 0;
	}
	loader = loader_new(rule, home, from, sock, pipe_fd);
	r = loader ? connect_to(loader) : -ENOMEM;
	if (r < 0) {
		/* It was given nothing to do, and ends with its socket. */
		if (loader)
			loader_free(loader);
		server_tell_keeper(rule->server, D_LOADER_GONE, from,
			sizeof(*from), NULL, 0);
		no_loader(rule, home, -r,
			"the daemon has no memory for one more loader process");
		return 0;
	}
	for (l = rule->loaders; l; l = next) {
		next = l->next;
		if (l->home == loader->home)
			retire(l);
	}
	loader->next = rule->loaders;
	rule->loaders = loader;
	segments_tell_loader(loader);
	load_go_on(rule);
	return 0;
}

/* Its server died, so it ends by itself; what it was filling was dropped. */
int loader_left(struct rule *rule, const struct msg_loader *from, int pipe_fd)
{
	struct loader *loader = loader_new(rule, rule, from, -1, pipe_fd);

	if (!loader)
		return -ENOMEM;
	loader->retired = true;
	loader->next = rule->loaders;
	rule->loaders = loader;
	watch_pipe(loader);
	return 0;
}
