/* SPDX-License-Identifier: MIT */
/*
 * The process of a client: when it ends, so does the connection.
 *
 * The end of a socket shows that no process has it any more, not that the
 * process which opened it has gone. A child made by vfork() or clone(), or a
 * program started with the descriptor open, would keep the leases of a dead
 * process for as long as it lives. So the server also watches the process
 * itself, by its pidfd, and the first of both ends ends the connection.
 *
 * A connection that was made at fork() for a child ends only with its socket at
 * first: the parent connected, and its end is no end of the connection. So the
 * server asks for the sender of each message, which the kernel fills in; a
 * sender that is not the parent is the child, and is watched from its first
 * message on. It is found by its pid: if that belongs to another process by
 * now, the child has died meanwhile, and its socket has ended. A process that
 * has the privilege to name another as the sender ties its own connection to
 * the life of that one, and nothing else.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

/* Since Linux 6.5; headers may be older than the kernel. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static void on_process(void *arg, unsigned ready)
{
	struct client *client = arg;

	if (ready & LOOP_READ)
		client_drop(client, NULL);
}

/* Of the process that connected: exact where the kernel has it, else by pid,
 * which cannot be reused until the process has been gone for a while. */
static int open_process(const struct client *client)
{
	int fd = -1;
	socklen_t size = sizeof(fd);

	if (getsockopt(client->sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
		return fd;
	if (errno != ENOPROTOOPT)
		return -errno;
	if (client->pid <= 0)
		return -ENOPROTOOPT;
	fd = (int)syscall(SYS_pidfd_open, client->pid, 0);
	return fd < 0 ? -errno : fd;
}

/* Takes fd, which may be an error. */
static void watch(struct client *client, int fd)
{
	/* Gone already. Seen as its hanging up, by the next event. */
	if (fd == -ESRCH)
		shutdown(client->sock, SHUT_RDWR);
	/* Of another namespace, or there is no descriptor to be had: the end
	 * of the socket must do. */
	if (fd < 0)
		return;
	client->pid_fd = fd;
	if (loop_watch(client->domain->server->loop, fd, LOOP_READ, on_process,
		    client, &client->pid_watch) < 0) {
		if (quota_may_log(client->user))
			log_warning("process_unwatched",
				log_i64("pid", client->pid),
				log_text("error", tarn_fail_message()));
		process_unwatch(client);
	}
}

void process_unwatch(struct client *client)
{
	client->pid_watch = loop_unwatch(client->pid_watch);
	client->pid_fd = fd_close(client->pid_fd);
}

/* ---- children ---------------------------------------------------------- */

static int open_child(int32_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

/* Without it the child is known as its parent, as before it speaks. */
static void ask_for_senders(struct client *client, int yes)
{
	setsockopt(client->sock, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
}

void process_expect(struct client *client)
{
	process_unwatch(client);
	client->child = true;
	ask_for_senders(client, 1);
}

void process_receive(struct client *client, const struct wire_message *m)
{
	struct msg_client met = {
		.number = client->number,
		.pid = m->pid,
		.version = client->version,
		.flags = CLIENT_CHILD | CLIENT_MET,
	};

	/* The parent asks for lease pages before it forks. */
	if (!client->child || m->pid <= 0 || m->pid == client->pid)
		return;
	client->child = false;
	client->pid = m->pid;
	ask_for_senders(client, 0);
	server_send_keeper(client->domain->server, D_CLIENT_SPEAKS, &met,
		sizeof(met), NULL, 0);
	watch(client, open_child(m->pid));
}

void process_watch(struct client *client, const struct msg_client *from)
{
	if (!(from->flags & CLIENT_CHILD))
		watch(client, open_process(client));
	else if (from->flags & CLIENT_MET)
		watch(client, open_child(from->pid));
	else
		process_expect(client);
}
