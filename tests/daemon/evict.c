/* SPDX-License-Identifier: MIT */
/*
 * Which loaded file is evicted: the one that was released longest ago, not the
 * one that was loaded first. The daemon gets no message of loads and releases;
 * it finds them in the lease pages, and remembers those of dead clients.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)
#define SIZE (16 * MIB)
#define FILES 4

/* Several jiffies, so that two notes differ. */
#define A_WHILE_US 50000

static struct daemon server;
static tarn_store *store;
static tarn_file *files[FILES]; /* room is for three */
static char paths[FILES][300];

static tarn_file *make_file(uint32_t i)
{
	char text[100];
	uint64_t size;
	tarn_file *file;
	FILE *f;

	snprintf(paths[i], sizeof(paths[i]), "%s/%u.safetensors", test_tmpdir(),
		i);
	snprintf(text, sizeof(text),
		"{\"x\":{\"dtype\":\"U8\",\"shape\":[%llu],"
		"\"data_offsets\":[0,%llu]}}",
		SIZE, SIZE);
	size = strlen(text);
	f = fopen(paths[i], "we");
	if (!f || fwrite(&size, 8, 1, f) != 1 ||
		fwrite(text, size, 1, f) != 1 || fflush(f) != 0 ||
		ftruncate(fileno(f), (off_t)(8 + size + SIZE)) < 0 ||
		fclose(f) != 0)
		bail("%s: %m", paths[i]);
	if (tarn_file_open(paths[i], &file) < 0)
		bail("%s", tarn_error_message());
	return file;
}

static tarn_tensor *get(int i)
{
	tarn_tensor *t = NULL;

	if (tarn_store_get_from_file(store, files[i], "x", NULL, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static void let_go(tarn_tensor *t)
{
	tarn_tensor_unref(t);
	usleep(A_WHILE_US);
}

static void use(int i)
{
	let_go(get(i));
}

/* Uses it, and tells whether it was there. */
static bool is_there(int i)
{
	struct tarn_load_info info = {0};

	if (tarn_store_load(store, files[i], NULL, &info, NULL) < 0)
		bail("%s", tarn_error_message());
	usleep(A_WHILE_US);
	return info.cached;
}

static void test_order(void)
{
	tarn_tensor *a, *b, *c;

	a = get(0);
	b = get(1);
	c = get(2);
	let_go(c);
	let_go(a);
	let_go(b);
	ok(!is_there(3), "a fourth file is loaded into a budget of three");
	ok(is_there(0), "the file that was loaded first but used later stays");
	ok(is_there(1), "the file that was released last stays");
	ok(!is_there(2), "the file that was released first is evicted");
}

/* ---- the dead ----------------------------------------------------- */

struct child {
	pid_t pid;
	int said, go;
};

static void wait_for(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		bail("a child has ended");
}

static void write_byte(int fd)
{
	if (write(fd, "", 1) != 1)
		bail("write: %m");
}

/* Holds a file until it is told to let it go; then waits for its end. */
static struct child child_with(int i)
{
	int out[2], in[2];
	struct child child;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(in, O_CLOEXEC) < 0)
		bail("pipe: %m");
	child.pid = fork();
	if (child.pid == 0) {
		tarn_tensor *t;

		close(in[1]);
		if (tarn_store_open(server.socket, NULL, &store) < 0)
			_exit(1);
		t = get(i);
		write_byte(out[1]);
		wait_for(in[0]);
		tarn_tensor_unref(t);
		write_byte(out[1]);
		pause();
	}
	close(in[0]);
	close(out[1]);
	child.go = in[1];
	child.said = out[0];
	wait_for(child.said);
	return child;
}

static void child_end(const struct child *child)
{
	struct tarn_report_daemon status = {.clients = 2};

	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	close(child->go);
	close(child->said);
	for (int i = 0; i < 6000 && status.clients != 1; i++) {
		usleep(10000);
		report_daemon(store, &status);
	}
	is_int(1, (int64_t)status.clients, "a client is killed");
}

/* 1, 2 and 3 are there, used in that order; 0 is not. */
static void in_order(void)
{
	use(1);
	use(2);
	use(3);
}

static void test_held_by_the_dead(void)
{
	struct child child;

	in_order();
	child = child_with(1);
	use(2);
	use(3);
	child_end(&child);
	usleep(A_WHILE_US);
	ok(!is_there(0), "the file used longest ago is evicted");
	ok(is_there(1), "files that the killed client held stay");
	ok(!is_there(2), "the next file in order was evicted");
}

static void test_noted_by_the_dead(void)
{
	struct child child;

	in_order();
	child = child_with(1);
	use(2);
	use(3);
	write_byte(child.go);
	wait_for(child.said);
	usleep(A_WHILE_US);
	use(3);
	child_end(&child);
	ok(!is_there(0), "the file used longest ago is evicted");
	ok(is_there(1), "a file that the dead client released late stays");
	ok(is_there(3), "a file that was used after that stays");
	ok(!is_there(2), "the file that was used before that is evicted");
}

int main(void)
{
	const char *const args[] = {
		"--budget", "56M", "--segment-size", "8M", NULL};

	for (uint32_t i = 0; i < FILES; i++)
		files[i] = make_file(i);
	daemon_start(&server, "s", args);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	test_order();
	test_held_by_the_dead();
	test_noted_by_the_dead();
	tarn_store_unref(store);
	for (int i = 0; i < FILES; i++) {
		tarn_file_unref(files[i]);
		unlink(paths[i]);
	}
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(14);
}
