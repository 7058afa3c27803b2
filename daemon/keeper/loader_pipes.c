/* SPDX-License-Identifier: MIT */
/*
 * Loaders as the keeper sees them: the read ends of their pipes.
 *
 * A pipe ends with the last write of the kernel for that loader, which may be
 * long after the loader's own end and after that of the server that knew it.
 * So the keeper holds each of them until a server reports its end, and sends
 * those that have not ended to the next server.
 */
#include "daemon/keeper/keeper.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"

static void forget(struct keeper_loader **at)
{
	struct keeper_loader *loader = *at;

	*at = loader->next;
	fd_close(loader->pipe_fd);
	free(loader);
}

/* Takes pipe_fd if it succeeds. */
int keeper_loader_adopt(
	struct keeper *keeper, const struct msg_loader *who, int pipe_fd)
{
	struct keeper_loader *loader = malloc(sizeof(*loader));

	if (!loader)
		return tarn_fail(ENOMEM, "out of memory");
	*loader = (struct keeper_loader) {
		.who = *who, .pipe_fd = pipe_fd, .next = keeper->loaders};
	keeper->loaders = loader;
	return 0;
}

static int start(struct keeper *keeper, struct msg_loader *loader)
{
	_cleanup_fd_ int sock = -1, ends = -1;
	int r;

	if (loader->domain >= keeper->n_domains)
		return tarn_fail(
			EPROTO, "there is no domain %u", loader->domain);
	loader->number = ++keeper->last_loader;
	r = keeper_fork_loader(keeper, loader, &sock, &ends);
	/* Held before the server can have anything written by it. */
	if (r >= 0)
		r = keeper_loader_adopt(keeper, loader, ends);
	if (r < 0)
		return r;
	return keeper_send(keeper, D_LOADER_IS, loader, sizeof(*loader),
		(int[]) {sock, fd_steal(&ends)}, 2);
}

int keeper_loader_start(struct keeper *keeper, const struct msg_loader *want)
{
	struct msg_loader message = *want;
	int r = start(keeper, &message);

	if (r >= 0) {
		if (keeper_may_log(keeper, message.domain))
			log_info("loader_start", log_i64("pid", message.pid),
				log_u64("uid", message.uid));
		return 0;
	}
	/* pid 0 in the answer: there is none; one that was forked ends with
	 * its socket. */
	if (keeper_may_log(keeper, message.domain))
		log_error("loader_failed",
			log_text("error", tarn_fail_message()));
	keeper_loader_gone(keeper, message.number);
	message.pid = 0;
	keeper_insist(keeper, D_LOADER_IS, &message, sizeof(message));
	return 0;
}

void keeper_loader_gone(struct keeper *keeper, uint32_t number)
{
	struct keeper_loader **p;

	for (p = &keeper->loaders; *p; p = &(*p)->next)
		if ((*p)->who.number == number)
			return forget(p);
}

void keeper_loader_kill(struct keeper *keeper, uint32_t number)
{
	for (const struct keeper_loader *l = keeper->loaders; l; l = l->next)
		if (l->who.number == number && l->who.pid > 0)
			kill(l->who.pid, SIGKILL);
}

void keeper_loader_reaped(struct keeper *keeper, pid_t pid)
{
	for (struct keeper_loader *l = keeper->loaders; l; l = l->next)
		if (l->who.pid == pid)
			l->who.pid = 0;
}

static bool has_ended(const struct keeper_loader *loader)
{
	struct pollfd p = {.fd = loader->pipe_fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

void keeper_loaders_replay(struct keeper *keeper)
{
	struct keeper_loader **p = &keeper->loaders;

	while (*p) {
		if (has_ended(*p)) {
			forget(p);
			continue;
		}
		keeper_replay(keeper, D_LOADER_LEFT, &(*p)->who,
			sizeof((*p)->who), &(*p)->pipe_fd, 1);
		p = &(*p)->next;
	}
}

void keeper_loaders_free(struct keeper *keeper)
{
	while (keeper->loaders)
		forget(&keeper->loaders);
}
