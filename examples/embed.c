/* SPDX-License-Identifier: MIT */
/*
 * A server of sentence embeddings: one copy of the weights, any number of
 * processes that compute, no Python.
 *
 *	tarn load minilm.safetensors --name minilm
 *	embed serve minilm --workers 4 &
 *	echo "101 7592 2088 102" | embed ask minilm
 *
 * Requests and answers go through the channels MODEL.in and MODEL.out: each
 * worker takes the next request (I64 [batch, length], token numbers that end in
 * zeros), and puts the vectors (F32 [batch, width]) and the number of the version
 * that they come from (I64 []) into a slot, under the request's tag; the answer to
 * what is no request is a sentence (U8) that says why. A request whose worker is
 * killed is answered by another one, twice where the first had answered already.
 * When the weights are published again the workers change to them between two
 * requests.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "examples/minilm.h"

#define WORKERS_MAX 256
#define LINE_MAX_TOKENS 512

static int complain(const char *who, int r)
{
	fprintf(stderr, "embed %s: %s\n", who, tarn_error_message());
	return r;
}

struct channels {
	tarn_store *store;
	tarn_channel *in, *out;
};

static int open_channel(tarn_store *store, const char *model, const char *end,
	tarn_channel **ret)
{
	const struct tarn_channel_options options = {
		.slots = 16, .slot_bytes = 1 << 20};
	char name[1024];

	snprintf(name, sizeof(name), "%s.%s", model, end);
	return tarn_channel_open(store, name, &options, ret);
}

static int open_channels(struct channels *c, const char *model)
{
	int r = tarn_store_open(NULL, NULL, &c->store);

	if (r >= 0)
		r = open_channel(c->store, model, "in", &c->in);
	if (r >= 0)
		r = open_channel(c->store, model, "out", &c->out);
	return r;
}

static void close_channels(struct channels *c)
{
	tarn_channel_unref(c->in);
	tarn_channel_unref(c->out);
	tarn_store_unref(c->store);
}

/* ---- a worker ------------------------------------------------------------- */

/* The answer is computed into the slot from which it is read. */
static int answer(struct channels *c, tarn_module *tree, struct minilm *model,
	tarn_item *item)
{
	tarn_state *state = tarn_module_hold(tree);
	tarn_tensor *ids = NULL, *vectors = NULL, *version = NULL;
	tarn_slot *slot = NULL;
	int64_t shape[2] = {0, minilm_width(model)};
	size_t size;
	const void *tag = tarn_item_tag(item, &size);
	int r = tarn_item_tensor(item, 0, &ids);

	if (r >= 0) {
		shape[0] = tarn_tensor_layout(ids)->shape[0];
		r = tarn_channel_acquire(c->out, -1, &slot);
	}
	if (r >= 0)
		r = tarn_slot_new_tensor(slot, TARN_F32, 2, shape, &vectors);
	if (r >= 0)
		r = tarn_slot_new_tensor(slot, TARN_I64, 0, NULL, &version);
	if (r >= 0)
		r = minilm_run(model, state, ids, vectors);
	if (r >= 0)
		r = tarn_tensor_set_i64(
			version, NULL, (int64_t)tarn_state_commit(state));
	if (r >= 0)
		r = tarn_slot_set_tag(slot, tag, size);
	tarn_tensor_unref(vectors);
	tarn_tensor_unref(version);
	tarn_tensor_unref(ids);
	if (r >= 0)
		r = tarn_slot_publish(slot);
	else
		tarn_slot_abandon(slot);
	tarn_state_unref(state);
	return r;
}

/* The sentence of the last failure, as an answer. */
static int refuse(struct channels *c, tarn_item *item)
{
	char text[256];
	int64_t n = snprintf(text, sizeof(text), "%s", tarn_error_message());
	tarn_tensor *sentence = NULL;
	tarn_slot *slot = NULL;
	size_t size;
	const void *tag = tarn_item_tag(item, &size);
	int r = tarn_channel_acquire(c->out, -1, &slot);

	n = n < (int64_t)sizeof(text) ? n : (int64_t)sizeof(text) - 1;
	if (r >= 0)
		r = tarn_slot_new_tensor(slot, TARN_U8, 1, &n, &sentence);
	if (r >= 0) {
		memcpy(tarn_tensor_data(sentence), text, (size_t)n);
		r = tarn_slot_set_tag(slot, tag, size);
	}
	tarn_tensor_unref(sentence);
	if (r >= 0)
		return tarn_slot_publish(slot);
	tarn_slot_abandon(slot);
	return r;
}

static int work(const char *name, int threads)
{
	struct channels c = {0};
	tarn_module *tree = NULL;
	struct minilm *model = NULL;
	int r = tarn_ops_set_threads(threads);

	if (r >= 0)
		r = open_channels(&c, name);
	if (r >= 0)
		r = tarn_module_open(c.store, name, NULL, &tree);
	if (r >= 0)
		r = minilm_new(tree, &model);
	while (r >= 0) {
		tarn_item *item = NULL;

		r = tarn_channel_receive(c.in, -1, &item);
		if (r >= 0)
			r = tarn_module_refresh(tree);
		if (r >= 0) {
			r = answer(&c, tree, model, item);
			/* One bad request ends no worker. */
			if (r < 0 && r != -EPIPE && r != -ECONNRESET)
				r = refuse(&c, item);
		}
		tarn_item_unref(item);
	}
	if (r != -EPIPE)
		complain("serve", r);
	minilm_free(model);
	tarn_module_unref(tree);
	close_channels(&c);
	return r != -EPIPE;
}

/* ---- the server ------------------------------------------------------------ */

/* A worker may be killed at any instant, and that is how it ends: a request that
 * it had goes to another one. */
static pid_t start_worker(const char *name, int threads, const sigset_t *mask)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	sigprocmask(SIG_SETMASK, mask, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	exit(getppid() == parent ? work(name, threads) : 0);
}

/* How many have ended; *failed: one did not end well, or as it was told. */
static int reap(pid_t *pids, int workers, int options, bool *failed)
{
	int status, n = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, options)) > 0) {
		for (int i = 0; i < workers; i++)
			if (pids[i] == pid)
				pids[i] = -1;
		*failed = *failed ||
			  (status != 0 && !(WIFSIGNALED(status) &&
						  WTERMSIG(status) == SIGTERM));
		n++;
	}
	return n;
}

static int serve(const char *name, int workers, int threads)
{
	pid_t pids[WORKERS_MAX];
	bool failed = false;
	sigset_t waited, before;

	sigemptyset(&waited);
	sigaddset(&waited, SIGTERM);
	sigaddset(&waited, SIGINT);
	sigaddset(&waited, SIGCHLD);
	sigprocmask(SIG_BLOCK, &waited, &before);
	for (int i = 0; i < workers; i++)
		pids[i] = start_worker(name, threads, &before);
	for (int left = workers; left > 0;) {
		int number = sigwaitinfo(&waited, NULL);

		left -= reap(pids, workers, WNOHANG, &failed);
		if (number == SIGCHLD)
			continue;
		for (int i = 0; i < workers; i++)
			if (pids[i] > 0)
				kill(pids[i], SIGTERM);
		left -= reap(pids, workers, 0, &failed);
	}
	return failed;
}

/* ---- a client ---------------------------------------------------------------- */

static int64_t read_tokens(char *line, int64_t *tokens)
{
	int64_t n = 0;
	char *end;

	for (;; line = end) {
		long long token = strtoll(line, &end, 10);

		if (end == line || n == LINE_MAX_TOKENS)
			return n;
		tokens[n++] = token;
	}
}

static int send_tokens(
	struct channels *c, const int64_t *tokens, int64_t n, uint64_t number)
{
	const int64_t shape[] = {1, n};
	tarn_tensor *ids = NULL;
	tarn_slot *slot = NULL;
	int r = tarn_channel_acquire(c->in, -1, &slot);

	if (r >= 0)
		r = tarn_slot_new_tensor(slot, TARN_I64, 2, shape, &ids);
	if (r >= 0)
		r = tarn_slot_set_tag(slot, &number, sizeof(number));
	if (r < 0) {
		tarn_slot_abandon(slot);
		return r;
	}
	memcpy(tarn_tensor_data(ids), tokens, (size_t)n * sizeof(*tokens));
	tarn_tensor_unref(ids);
	return tarn_slot_publish(slot);
}

static int print_answer(tarn_item *item)
{
	tarn_tensor *vectors = NULL;
	const struct tarn_layout *l;
	const float *v;
	int r = tarn_item_tensor(item, 0, &vectors);

	if (r < 0)
		return r;
	l = tarn_tensor_layout(vectors);
	v = tarn_tensor_data(vectors);
	if (l->dtype == TARN_U8) {
		printf("refused: %.*s\n", (int)l->shape[0],
			(const char *)tarn_tensor_data(vectors));
		tarn_tensor_unref(vectors);
		return 0;
	}
	for (int64_t i = 0; i < l->shape[1]; i++)
		printf("%s%.7g", i ? " " : "", (double)v[i]);
	putchar('\n');
	tarn_tensor_unref(vectors);
	return 0;
}

/* One line at a time: there is one client, and so its answer comes next. */
static int ask(const char *name)
{
	struct channels c = {0};
	int64_t tokens[LINE_MAX_TOKENS];
	char *line = NULL;
	size_t room = 0;
	int r = open_channels(&c, name);

	for (uint64_t i = 0; r >= 0 && getline(&line, &room, stdin) > 0; i++) {
		int64_t n = read_tokens(line, tokens);
		tarn_item *item = NULL;

		if (!n)
			continue;
		r = send_tokens(&c, tokens, n, i);
		if (r >= 0)
			r = tarn_channel_receive(c.out, -1, &item);
		if (r >= 0)
			r = print_answer(item);
		tarn_item_unref(item);
	}
	if (r < 0)
		complain("ask", r);
	free(line);
	close_channels(&c);
	return r < 0;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: embed serve MODEL [--workers N] [--threads N]\n"
		"       embed ask MODEL   (lines of token numbers on stdin)\n"
		"MODEL is a published set of weights: tarn load FILE --name "
		"MODEL\n");
	return 2;
}

static int number_after(int argc, char **argv, const char *name, int otherwise)
{
	for (int i = 3; i + 1 < argc; i++)
		if (!strcmp(argv[i], name))
			return atoi(argv[i + 1]);
	return otherwise;
}

int main(int argc, char **argv)
{
	int workers = number_after(argc, argv, "--workers", 1);

	if (argc < 3 || workers < 1 || workers > WORKERS_MAX)
		return usage();
	if (!strcmp(argv[1], "serve"))
		return serve(argv[2], workers,
			number_after(argc, argv, "--threads", 1));
	return !strcmp(argv[1], "ask") ? ask(argv[2]) : usage();
}
