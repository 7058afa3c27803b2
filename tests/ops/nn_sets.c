// SPDX-License-Identifier: MIT
#include "tests/ops/nn_sets.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct daemon nn_daemon;
tarn_store *nn_store;

void nn_begin(void)
{
	nn_store = daemon_start_open(&nn_daemon, "tarnd", NULL);
}

int nn_end(void)
{
	nn_store = tarn_store_unref(nn_store);
	return daemon_stop(&nn_daemon);
}

/* ---- publishing ----------------------------------------------------------- */

static tarn_tensor *filled(tarn_store *store, int64_t n, double value)
{
	tarn_tensor *t;
	float *data;

	need(tarn_store_create(store, TARN_F32, 1, &n, 0, &t));
	data = tarn_tensor_data(t);
	for (int64_t i = 0; i < n; i++)
		data[i] = (float)value;
	return t;
}

void nn_publish(tarn_store *store, double version)
{
	const struct tarn_publish_options options = {.replace = "model/"};
	struct tarn_publish_item items[SET_TENSORS];
	char names[SET_TENSORS][40];

	for (int i = 0; i < SET_TENSORS; i++) {
		snprintf(names[i], sizeof(names[i]), "model/layer.%d.%s", i / 2,
			i % 2 ? "bias" : "weight");
		items[i] = (struct tarn_publish_item) {.name = names[i],
			.tensor = filled(store, 16 + 100 * i, version)};
	}
	need(tarn_store_publish(store, items, SET_TENSORS, &options, NULL));
	for (int i = 0; i < SET_TENSORS; i++)
		tarn_tensor_unref(items[i].tensor);
}

void nn_publish_one(
	tarn_store *store, const char *name, int64_t n, double value)
{
	tarn_tensor *t = filled(store, n, value);

	need(tarn_store_publish_one(store, name, t, NULL, NULL));
	tarn_tensor_unref(t);
}

pid_t nn_publisher(double first, unsigned pause_us)
{
	int ends[2];
	char byte;
	pid_t pid;

	if (pipe(ends) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		tarn_store *s;

		if (tarn_store_open(nn_daemon.socket, NULL, &s) < 0)
			_exit(1);
		nn_publish(s, first);
		if (write(ends[1], "", 1) != 1)
			_exit(1);
		for (double version = first + 1;; version++) {
			nn_publish(s, version);
			usleep(pause_us);
		}
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		bail("the publisher did not begin");
	close(ends[0]);
	return pid;
}

void nn_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- looking -------------------------------------------------------------- */

struct look {
	const tarn_state *state;
	double version; /* 0: none yet */
};

static int look(void *arg, tarn_parameter *p)
{
	struct look *l = arg;
	const tarn_tensor *t = tarn_state_tensor(l->state, p);
	const float *data = tarn_tensor_data(t);
	int64_t n = tarn_layout_numel(tarn_tensor_layout(t));

	if (l->version == 0)
		l->version = data[0];
	for (int64_t i = 0; i < n; i++)
		if (data[i] != (float)l->version) {
			diag("%s has version %g beside %g",
				tarn_parameter_path(p), (double)data[i],
				l->version);
			return 1;
		}
	return 0;
}

double nn_version(tarn_module *m, const tarn_state *state)
{
	struct look l = {.state = state};

	return tarn_module_each(m, look, &l) ? -1 : l.version;
}
