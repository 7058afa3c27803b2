/* SPDX-License-Identifier: MIT */
/*
 * Stores across fork(): a child holds its tensors, whether or not it ever
 * calls the library again, after its parent dropped them or was killed. The
 * calls that a child may make are in fork_calls.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/store_fork.h"
#include "tests/kit/tap.h"

/* A child that does nothing but wait for a byte, and then reads its array. */
struct quiet {
	pid_t pid;
	int go;
};

static struct quiet quiet_child(const tarn_tensor *t)
{
	struct quiet child;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		bail("pipe: %m");
	child.pid = fork();
	if (child.pid == 0) {
		char byte;

		close(ends[1]);
		_exit(read(ends[0], &byte, 1) == 1 && kit_fork_is_right(t) ? 0
									   : 1);
	}
	close(ends[0]);
	child.go = ends[1];
	return child;
}

static int quiet_end(const struct quiet *child)
{
	if (write(child->go, "", 1) != 1)
		bail("write: %m");
	close(child->go);
	return kit_fork_finished(child->pid);
}

static void test_parent_lets_go(void)
{
	tarn_tensor *t = kit_fork_get_one();
	struct quiet child = quiet_child(t);

	is_int(2, kit_fork_clients(),
		"a child that has leases has a connection");
	tarn_tensor_unref(t);
	ok(!kit_fork_has_room(),
		"the child holds the tensor that its parent dropped");
	is_int(0, quiet_end(&child), "the child reads the tensor that it had");
	ok(kit_fork_gets_room(), "a child that has ended holds no tensor");
	ok(kit_fork_is_alone(),
		"the connection of a child that has ended is gone");
}

static void test_child_lets_go(void)
{
	tarn_tensor *t = kit_fork_get_one();
	pid_t pid = fork();

	if (pid == 0) {
		tarn_tensor_unref(t);
		_exit(0);
	}
	is_int(0, kit_fork_finished(pid), "a child drops its tensor and ends");
	ok(kit_fork_is_alone() && !kit_fork_has_room(),
		"the parent still holds what the child dropped");
	ok(kit_fork_is_right(t),
		"the parent can read the tensor that it holds");
	tarn_tensor_unref(t);
	ok(kit_fork_gets_room(),
		"the memory is free when the parent drops it, too");
}

/* A tensor keeps its kit_fork_store, whose handle is gone: what a fork locks of
 * that must be there. */
static void test_handle_is_gone(void)
{
	struct shared_storage *shared;
	struct quiet child;
	tarn_store *other;
	tarn_tensor *t;

	if (tarn_store_open(kit_fork_daemon.socket, NULL, &other) < 0 ||
		tarn_store_get_from_file(other, kit_fork_one, "b", NULL, &t) <
			0)
		bail("%s", tarn_error_message());
	tarn_store_unref(other);
	shared = store_storage_of(tarn_tensor_storage(t));
	is_int(0, pthread_mutex_lock(&shared->store->files.lock),
		"a store without a handle can be locked");
	pthread_mutex_unlock(&shared->store->files.lock);
	child = quiet_child(t);
	tarn_tensor_unref(t);
	ok(!kit_fork_has_room(),
		"a child of the locked store holds its tensors");
	is_int(0, quiet_end(&child),
		"the child reads the tensors of the locked store");
	ok(kit_fork_gets_room(),
		"the child of a locked store holds nothing after its end");
}

/* No connection can be made for the child. It has the parent's, whose leases
 * stay, although the parent drops its tensor and closes the store. */
static void test_no_connection(void)
{
	struct quiet child, next;
	tarn_store *other;
	tarn_tensor *t;

	if (tarn_store_open(kit_fork_daemon.socket, NULL, &other) < 0 ||
		tarn_store_get_from_file(other, kit_fork_one, "b", NULL, &t) <
			0)
		bail("%s", tarn_error_message());
	kit_fork_hide();
	child = quiet_child(t);
	kit_fork_show();
	next = quiet_child(t);
	is_int(3, kit_fork_clients(),
		"the parent's next child has a connection of its own");
	is_int(0, quiet_end(&next), "the parent's next child reads");
	tarn_tensor_unref(t);
	ok(!kit_fork_has_room(), "what a child without a connection holds "
				 "stays when its parent drops it");
	tarn_store_unref(other);
	ok(!kit_fork_has_room(), "what a child without a connection holds "
				 "stays when its parent closes the store");
	is_int(0, quiet_end(&child),
		"a child without a connection reads what it had");
	ok(kit_fork_gets_room(),
		"a child without a connection holds nothing after its end");
}

/* The last notification is the child's. */
static void test_child_rings(void)
{
	tarn_tensor *t = kit_fork_get_one();
	int ready[2], go[2];
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		tarn_tensor_unref(t);
		if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 0)
			_exit(2);
		_exit(0);
	}
	close(go[0]);
	tarn_tensor_unref(t);
	ok(!kit_fork_has_room(), "a child that lives holds its tensor");
	ok(write(go[1], "", 1) == 1 && read(ready[0], &byte, 1) == 1,
		"a child drops its tensor and lives on");
	ok(kit_fork_gets_room(),
		"the daemon learns that the child dropped its tensor");
	close(go[1]);
	is_int(0, kit_fork_finished(pid),
		"the child that finished ends with status 0");
	close(ready[0]);
	close(ready[1]);
}

/* A process of its own opens, gets and forks; then it is killed. */
static void test_parent_is_killed(void)
{
	int ready[2], go[2], status;
	char byte = 0;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		tarn_tensor *t;

		close(go[1]);
		if (tarn_store_open(
			    kit_fork_daemon.socket, NULL, &kit_fork_store) < 0)
			_exit(1);
		t = kit_fork_get_one();
		if (fork() > 0)
			pause();
		if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(1);
		byte = kit_fork_is_right(t) ? 1 : 2;
		_exit(write(ready[1], &byte, 1) == 1 ? 0 : 1);
	}
	close(go[0]);
	close(ready[1]);
	ok(read(ready[0], &byte, 1) == 1,
		"a process and its child hold a tensor");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	/* Its end is noticed; that of its child has not come. */
	for (int i = 0; i < 3000 && kit_fork_clients() > 2; i++)
		usleep(20000);
	is_int(2, kit_fork_clients(), "the connection of a killed parent ends");
	ok(!kit_fork_has_room(),
		"the child holds the tensor of its killed parent");
	ok(write(go[1], "", 1) == 1 && read(ready[0], &byte, 1) == 1 &&
			byte == 1,
		"the child can read the tensor that it holds");
	close(go[1]);
	close(ready[0]);
	ok(kit_fork_gets_room(), "the tensor is freed when the child ends");
	ok(kit_fork_is_alone(), "no connection of both is left");
}

/* A child of clone() has the socket and knows nothing of it. */
static void test_socket_stays_open(void)
{
	int ready[2], status;
	pid_t pid, heir = 0;

	if (pipe2(ready, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		if (tarn_store_open(
			    kit_fork_daemon.socket, NULL, &kit_fork_store) < 0)
			_exit(1);
		kit_fork_get_one();
		heir = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, 0, NULL);
		if (heir > 0 && write(ready[1], &heir, sizeof(heir)) < 0)
			_exit(2);
		pause();
	}
	ok(read(ready[0], &heir, sizeof(heir)) == sizeof(heir),
		"a process holds a tensor while another has its socket");
	ok(!kit_fork_has_room(),
		"the tensor is held although two have the socket");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ok(kit_fork_gets_room(),
		"the process's end is noticed although another has its socket");
	ok(kit_fork_is_alone(), "the connection of the dead child is gone");
	is_int(0, kill(heir, SIGKILL),
		"the other process with the socket was alive");
	close(ready[0]);
	close(ready[1]);
}

static void test_nested(void)
{
	tarn_tensor *t = kit_fork_get_one();
	int go[2];
	char byte;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		for (int i = 0; i < 3; i++)
			if (fork() > 0)
				_exit(0);
		if (read(go[0], &byte, 1) < 0 || !kit_fork_is_right(t) ||
			tarn_store_lookup(kit_fork_store, "none", &t) !=
				-ENOENT)
			abort();
		_exit(0);
	}
	close(go[0]);
	is_int(0, kit_fork_finished(pid),
		"a child of a child of a child uses the store");
	tarn_tensor_unref(t);
	usleep(100000);
	ok(!kit_fork_has_room(),
		"the last descendant holds the tensor of all before it");
	close(go[1]);
	ok(kit_fork_gets_room(),
		"the tensor is freed when the last descendant ends");
	ok(kit_fork_is_alone(), "the connection of the child ends with it");
}

int main(void)
{
	kit_fork_begin();
	test_parent_lets_go();
	test_child_lets_go();
	test_handle_is_gone();
	test_child_rings();
	test_no_connection();
	test_parent_is_killed();
	test_socket_stays_open();
	test_nested();
	kit_fork_end();
	return done(39);
}
