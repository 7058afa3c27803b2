/* SPDX-License-Identifier: MIT */
/* See witness.h. */
#include "tests/kit/witness.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/store/store.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define INNOCENT_BYTES 100000
#define BOOKS_S 60.0 /* until the books are as before */
#define NAP_US 20000

/* ---- files ------------------------------------------------------------- */

unsigned char made_byte(uint64_t at, uint32_t seed)
{
	return (unsigned char)(((at / 8 + seed) * 0x9e3779b97f4a7c15ull) >>
			       (8 * (at % 8)));
}

const char *made_file(const char *name, uint64_t size, uint32_t seed)
{
	static char paths[8][300];
	static unsigned turn;
	char *path = paths[turn++ % 8];
	uint64_t words[8192];
	int fd;

	snprintf(path, sizeof(paths[0]), "%s/%s", test_tmpdir(), name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (uint64_t at = 0; fd >= 0 && at < size; at += sizeof(words)) {
		uint64_t n =
			size - at < sizeof(words) ? size - at : sizeof(words);

		for (uint64_t i = 0; i < sizeof(words) / 8; i++)
			words[i] = (at / 8 + i + seed) * 0x9e3779b97f4a7c15ull;
		if (fd_write_all(fd, words, n) < 0)
			bail("%s: write", path);
	}
	if (fd < 0)
		bail("%s: %m", path);
	close(fd);
	return path;
}

int opened(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		bail("%s: %m", path);
	return fd;
}

int opened_direct(const char *path)
{
	return open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
}

void remove_files(void)
{
	char command[400];

	snprintf(command, sizeof(command), "rm -rf '%s'", test_tmpdir());
	if (system(command))
		diag("%s is left behind", test_tmpdir());
}

/* ---- processes ---------------------------------------------------------- */

/* When it began, in the kernel's ticks; 0: it is none. */
static unsigned long long child_began(
	const char *pid, pid_t parent, const char *name)
{
	char path[300], text[512], comm[32];
	unsigned long long began;
	int of;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	if (fd_read_text(path, text, sizeof(text)) <= 0)
		return 0;
	if (sscanf(text,
		    "%*d (%31[^)]) %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		    "%*s %*s %*s %*s %*s %*s %*s %*s %llu",
		    comm, &of, &began) != 3 ||
		of != parent || strcmp(comm, name) != 0)
		return 0;
	return began;
}

unsigned children_named(pid_t keeper, const char *name, pid_t *ret_newest)
{
	DIR *folder = opendir("/proc");
	unsigned long long began, last = 0;
	struct dirent *e;
	pid_t newest = 0;
	unsigned n = 0;

	/* By its time: numbers begin anew when they have run out. */
	while (folder && (e = readdir(folder))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		began = child_began(e->d_name, keeper, name);
		n += began > 0;
		if (began > last ||
			(began && began == last && atoi(e->d_name) > newest)) {
			newest = atoi(e->d_name);
			last = began;
		}
	}
	if (folder)
		closedir(folder);
	*ret_newest = newest;
	return n;
}

pid_t child_named(pid_t keeper, const char *name)
{
	pid_t newest;

	children_named(keeper, name, &newest);
	return newest;
}

void wait_stopped(pid_t pid)
{
	double begun = seconds();
	char path[40], state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	do {
		file = fopen(path, "re");
		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			bail("%s: %m", path);
		fclose(file);
	} while (state != 'T' && seconds() - begun < 60 && usleep(1000) == 0);
	if (state != 'T')
		bail("process %d does not stop", (int)pid);
}

/* ---- the client --------------------------------------------------------- */

struct tarn_report_daemon witness_status(struct witness *w)
{
	struct tarn_report_daemon s = {0};

	if (report_daemon(w->store, &s) < 0)
		bail("the innocent client: %s", tarn_error_message());
	return s;
}

/* But for those that come with memory and with loaders. */
static int server_fds(struct witness *w)
{
	struct tarn_report_daemon s = witness_status(w);
	int n = count_fds(s.server_pid);

	if (n < 0)
		return -1;
	return n - (int)w->store->table.header->n_segments - 2 * (int)s.loaders;
}

static int loader_fds(struct witness *w)
{
	pid_t pid = child_named(w->daemon->pid, "tarn-loader");

	return pid ? count_fds(pid) : -1;
}

static tarn_tensor *load(struct witness *w, const char *path, const char *name)
{
	struct tarn_load_options options = {.name = name};
	tarn_tensor *all = NULL;
	tarn_file *file = NULL;

	if (tarn_file_open(path, &file) < 0 ||
		tarn_store_load(w->store, file, &options, NULL, &all) < 0)
		diag("the innocent client: %s", tarn_error_message());
	tarn_file_unref(file);
	return all;
}

/* A .npy file of U8, whose bytes made_byte tells. */
static const char *npy(const char *name, uint64_t size, uint32_t seed)
{
	static const char magic[] = "\x93NUMPY\x01\x00\x76\x00";
	const char *path = made_file(name, size, seed);
	char header[128], *bytes = malloc(size);
	int fd = open(path, O_RDWR | O_CLOEXEC), n;

	memset(header, ' ', sizeof(header));
	memcpy(header, magic, 10);
	n = sprintf(header + 10,
		"{'descr': '|u1', 'fortran_order': False, 'shape': (%llu,), }",
		(unsigned long long)size);
	header[10 + n] = ' ';
	header[127] = '\n';
	if (fd < 0 || !bytes || fd_pread(fd, bytes, size, 0) < 0 ||
		fd_write_all(fd, header, 128) < 0 ||
		fd_write_all(fd, bytes, size) < 0)
		bail("%s: %m", path);
	close(fd);
	free(bytes);
	return path;
}

static bool holds(const tarn_tensor *t, uint64_t size, uint32_t seed)
{
	const unsigned char *p = t ? tarn_tensor_data(t) : NULL;

	for (uint64_t i = 0; p && i < size; i++)
		if (p[i] != made_byte(i, seed))
			return false;
	return p;
}

void witness_begin_beside(
	struct witness *w, const struct daemon *daemon, unsigned others)
{
	double end;

	*w = (struct witness) {.daemon = daemon};
	if (tarn_store_open(daemon->socket, NULL, &w->store) < 0)
		bail("the innocent client: %s", tarn_error_message());
	w->tensor = load(w, npy("innocent.npy", INNOCENT_BYTES, 1), "innocent");
	if (!holds(w->tensor, INNOCENT_BYTES, 1))
		bail("the innocent client has no tensor");
	/* The client that saw the daemon start may still be leaving. */
	end = seconds() + BOOKS_S;
	do {
		usleep(NAP_US);
		w->before = witness_status(w);
	} while ((w->before.clients != 1 + others || w->before.loaders > 1 ||
			 w->before.loads_active) &&
		 seconds() < end);
	usleep(NAP_US);
	w->server_fds = server_fds(w);
	w->loader_fds = loader_fds(w);
}

void witness_begin(struct witness *w, const struct daemon *daemon)
{
	witness_begin_beside(w, daemon, 0);
}

bool witness_is_served(struct witness *w, const char *while_what)
{
	struct tarn_report_daemon s;
	tarn_tensor *t = NULL;
	bool fine;

	fine = report_daemon(w->store, &s) >= 0 &&
	       tarn_store_lookup(w->store, "innocent/innocent", &t) >= 0;
	if (!fine)
		diag("%s", tarn_error_message());
	fine = fine && holds(t, INNOCENT_BYTES, 1);
	tarn_tensor_unref(t);
	return ok(fine, "the innocent client is served: %s", while_what);
}

bool witness_can_load(struct witness *w, const char *while_what)
{
	static uint32_t seed = 1000;
	char name[40];
	double start = seconds();
	tarn_tensor *t;
	bool fine;

	snprintf(name, sizeof(name), "w%u.npy", ++seed);
	t = load(w, npy(name, 50000, seed), NULL);
	fine = holds(t, 50000, seed);
	tarn_tensor_unref(t);
	diag("in %.3f s", seconds() - start);
	return ok(fine, "the innocent client can load a file: %s", while_what);
}

bool witness_sees_used(struct witness *w, uint64_t used)
{
	double end = seconds() + BOOKS_S;

	while (witness_status(w).used != used && seconds() < end)
		usleep(NAP_US);
	return witness_status(w).used == used;
}

static bool as_before(
	const struct witness *w, const struct tarn_report_daemon *s)
{
	return s->used == w->before.used && s->storages == w->before.storages &&
	       s->names == w->before.names &&
	       s->loads_active == w->before.loads_active &&
	       s->clients == w->before.clients;
}

static void compare_fds(struct witness *w)
{
	double end = seconds() + BOOKS_S;
	int server, loader;

	if (w->server_fds < 0 || w->loader_fds < 0) {
		skip(2, "only root may count the daemon's "
			"descriptors");
		return;
	}
	do {
		server = server_fds(w);
		loader = loader_fds(w);
	} while ((server > w->server_fds || loader > w->loader_fds) &&
		 seconds() < end && usleep(NAP_US) == 0);
	diag("descriptors of the server: %d, were %d; of the loader: %d, were "
	     "%d",
		server, w->server_fds, loader, w->loader_fds);
	ok(server <= w->server_fds, "the server has leaked no descriptor");
	ok(loader <= w->loader_fds, "the loader has leaked no descriptor");
}

void witness_compare(struct witness *w)
{
	double end = seconds() + BOOKS_S;
	struct tarn_report_daemon s = witness_status(w);

	while (!as_before(w, &s) && seconds() < end) {
		usleep(NAP_US);
		s = witness_status(w);
	}
	is_int((int64_t)w->before.used, (int64_t)s.used,
		"the used bytes are as before");
	is_int((int64_t)w->before.storages, (int64_t)s.storages,
		"the number of storages is as before");
	is_int((int64_t)w->before.names, (int64_t)s.names,
		"the number of names is as before");
	is_int((int64_t)w->before.loads_active, (int64_t)s.loads_active,
		"the number of active loads is as before");
	is_int(w->before.clients, s.clients,
		"the number of clients is as before");
	compare_fds(w);
}

void witness_end(struct witness *w)
{
	witness_is_served(w, "at the end");
	witness_compare(w);
	tarn_tensor_unref(w->tensor);
	w->store = tarn_store_unref(w->store);
}
