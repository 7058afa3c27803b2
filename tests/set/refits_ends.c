/* SPDX-License-Identifier: MIT */
/* Refusals, failures, and the end of a refit that was not committed. */
#include "tests/set/refits.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

/* ---- refusals ------------------------------------------------------------ */

void refits_refused(void)
{
	struct tarn_refit_options options = {.reserved = {1}};
	tarn_tensor *t = refits_numbers(TARN_F32, 10, 11, 1);
	tarn_refit *refit = NULL;

	check_failed(-ENOENT, "nothing is published below 'w/'",
		tarn_refit_begin(refits_store, "w", NULL, &refit),
		"a set that is not there");
	refits_publish(10, 10);
	check_failed(-EINVAL, "tarn_refit_options",
		tarn_refit_begin(refits_store, "w", &options, &refit),
		"a reserved word that is set");
	check_failed(-EINVAL, "prefix",
		tarn_refit_begin(refits_store, "w/", NULL, &refit),
		"a prefix with the slash");
	refit = refits_refit(NULL);
	check_failed(-ENOENT, "refit: 'x': the set has no tensor 'x'",
		tarn_refit_put(refit, "x", t), "a name that is not there");
	check_failed(-EINVAL,
		"'a': a tensor of shape [10, 11] was put, the set has one of "
		"shape [10, 10]",
		tarn_refit_put(refit, "a", t), "another shape");
	check_failed(-ENOENT, "no tensor '.fields'",
		tarn_refit_put(refit, TARN_SET_FIELDS, t), "the fields");
	tarn_tensor_unref(t);
	t = refits_numbers(TARN_F32, 10, 10, 5);
	must(tarn_refit_put(refit, "a", t));
	check_failed(-EEXIST, "'a': it was put already",
		tarn_refit_put(refit, "a", t), "a name twice");
	check_failed(-EEXIST, "'a': it was put already",
		tarn_refit_put_part(refit, "a", 0, t),
		"a part of what was put");
	refits_commit(refit);
	refits_check("a", TARN_F32, 10, 10, 5, "after refusals");
	tarn_tensor_unref(t);
	tarn_refit_free(refits_refit(NULL));
	refit = refits_refit(NULL);
	refits_commit(refit);
	refits_check("a", TARN_F32, 10, 10, 5, "after a commit of nothing");
}

void refits_added(void)
{
	const struct tarn_set_field field = {.key = "k", .value = "v"};
	const struct tarn_refit_options options = {.add = true,
		.fields = &field,
		.n_fields = 1,
		.device = refits_where};
	tarn_tensor *t = refits_numbers(TARN_F16, 7, 5, 5);
	tarn_refit *refit = refits_refit(&options);

	must(tarn_refit_put(refit, "first", t));
	check_failed(-EINVAL, "name of the set's fields",
		tarn_refit_put(refit, TARN_SET_FIELDS, t), "the fields");
	check_failed(-EINVAL, "a name is empty", tarn_refit_put(refit, "", t),
		"an empty name");
	check_failed(-EINVAL, "control character U+000A",
		tarn_refit_put(refit, "a\nb", t), "a name of two lines");
	check_failed(-ENOENT, "no tensor 'x'",
		tarn_refit_put_part(refit, "x", 0, t),
		"a part of a name that is not there");
	refits_commit(refit);
	refits_check("first", TARN_F16, 7, 5, 5, "the first tensor of a set");
	check(tarn_set_check(refits_store, "w", &field, 1) == 0,
		"a new set has the fields");
	refit = refits_refit(&options);
	must(tarn_refit_put(refit, "second", t));
	refits_commit(refit);
	refits_check("first", TARN_F16, 7, 5, 5, "an old tensor");
	refits_check("second", TARN_F16, 7, 5, 5, "an added tensor");
	tarn_tensor_unref(t);
}

/* ---- others -------------------------------------------------------------- */

static void publish_one(const char *name, int seed)
{
	tarn_tensor *t = refits_created(10, 10, seed);

	must(tarn_store_publish_one(refits_store, name, t, NULL, NULL));
	tarn_tensor_unref(t);
}

static tarn_refit *with_a(int seed)
{
	tarn_refit *refit = refits_refit(NULL);

	refits_put(refit, "a", refits_numbers(TARN_F32, 10, 10, seed));
	return refit;
}

static void check_stale(tarn_refit *refit, const char *sentence)
{
	check_failed(-ESTALE, sentence, tarn_refit_commit(refit), "a commit");
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, 10, 10, 1, sentence);
}

/* A commit does not undo what others have done in the set meanwhile. */
void refits_overtaken(void)
{
	tarn_refit *refit;

	refits_publish(10, 10);
	refit = with_a(50);
	publish_one("w/b", 60);
	check_stale(refit, "'w/b' was published since the refit began");
	refit = with_a(50);
	must(tarn_store_remove(refits_store, "w/c"));
	check_stale(refit, "'w/c' was removed since the refit began");
	refit = with_a(50);
	publish_one("w/bb", 60);
	check_stale(refit, "'w/bb' was added since the refit began");
	/* Its first version both times. */
	refit = with_a(50);
	must(tarn_store_remove(refits_store, "w/bb"));
	publish_one("w/bb", 61);
	check_stale(refit, "'w/bb' was published since the refit began");
	refit = with_a(50);
	publish_one("other", 60);
	refits_commit(refit);
	refits_check("a", TARN_F32, 10, 10, 50, "beside another set's name");
	must(tarn_store_remove(refits_store, "other"));
}

/* ---- the end before the end ---------------------------------------------- */

void refits_aborted(void)
{
	const struct tarn_refit_options options = {.bucket_bytes = 1000000};
	tarn_refit *refit;
	uint64_t before;

	refits_publish(ROWS, COLUMNS);
	before = refits_kept();
	refit = refits_refit(&options);
	refits_put(refit, "a", refits_numbers(TARN_F16, ROWS, COLUMNS, 50));
	refits_put(refit, "b",
		refits_placed(refits_numbers(TARN_F32, ROWS, COLUMNS, 50)));
	check(!tarn_refit_free(refit),
		"a refit is dropped with copies under way");
	refits_check("a", TARN_F32, ROWS, COLUMNS, 1, "after an abort");
	refits_check_kept(before, "after an abort");
	for (int i = 0; i < 3; i++) {
		refit = refits_refit(&options);
		refits_put(
			refit, "a", refits_numbers(TARN_F32, ROWS, COLUMNS, i));
		refits_put(
			refit, "b", refits_numbers(TARN_F32, ROWS, COLUMNS, i));
		refits_put(
			refit, "c", refits_numbers(TARN_F32, ROWS, COLUMNS, i));
		refits_commit(refit);
	}
	refits_check_kept(before, "after three versions");
}

static tarn_tensor *file_of(tarn_tensor *t, FILE **ret_file)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	size_t n = (size_t)tarn_layout_nbytes(l);
	tarn_storage *storage;
	FILE *f = tmpfile();
	tarn_tensor *ret;

	if (!f || fwrite(tarn_tensor_data(t), 1, n, f) != n || fflush(f))
		bail("a temporary file: %m");
	must(tarn_storage_from_fd(fileno(f), 0, n, &storage));
	must(tarn_tensor_new(storage, 0, l, &ret));
	tarn_storage_unref(storage);
	*ret_file = f;
	return ret;
}

void refits_file(void)
{
	tarn_tensor *t = refits_numbers(TARN_BF16, ROWS, COLUMNS, 44);
	tarn_refit *refit;
	FILE *f;

	refits_publish(ROWS, COLUMNS);
	refit = refits_refit(NULL);
	refits_put(refit, "a", file_of(t, &f));
	refits_commit(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 44, "put from a file");
	tarn_tensor_unref(t);
	fclose(f);
}

/* A copy that fails ends the refit, and leaves the old version. */
void refits_file_shrinks(void)
{
	tarn_tensor *t = refits_numbers(TARN_F32, ROWS, COLUMNS, 44);
	tarn_tensor *in_file;
	tarn_refit *refit;
	uint64_t before;
	FILE *f;

	refits_publish(ROWS, COLUMNS);
	before = refits_kept();
	refit = refits_refit(NULL);
	in_file = file_of(t, &f);
	refits_put(refit, "a", in_file);
	if (ftruncate(fileno(f), 4096) < 0)
		bail("ftruncate: %m");
	check_failed(-ENODATA, "refit: 'w/a': ", tarn_refit_flush(refit),
		"a file that shrinks");
	check_failed(-ENODATA,
		"after a failure: 'w/a': ", tarn_refit_put(refit, "b", t),
		"a tensor that is put after that");
	check_failed(-ENODATA, "after a failure", tarn_refit_commit(refit),
		"the commit after that");
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 1, "after a failure");
	refits_check_kept(before, "after a failure");
	tarn_tensor_unref(t);
	fclose(f);
}

/* ---- killed -------------------------------------------------------------- */

/* A process that is killed with some buckets copied and one open. */
static void victim(void)
{
	const struct tarn_refit_options options = {.bucket_bytes = 2000000};
	struct tarn_cuda_device gpu;
	tarn_refit *refit;

	must(tarn_store_open(refits_daemon.socket, NULL, &refits_store));
	if (refits_where)
		must(tarn_cuda_device("0", &gpu));
	refit = refits_refit(&options);
	refits_put(refit, "a", refits_numbers(TARN_F32, ROWS, COLUMNS, 50));
	refits_put(refit, "b", refits_numbers(TARN_F32, ROWS, COLUMNS, 50));
	refits_put_rows(refit, "c", 0, 10, COLUMNS);
	raise(SIGKILL);
}

/* The child opens its own store, and a driver: the parent, a copy of which it
 * is, has used neither. */
static void run_victim(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "case", "victim", refits_daemon.socket,
			refits_where ? "there" : "here", NULL);
		_exit(9);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		bail("a process that is killed: %m");
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		"the publisher is killed: %#x", status);
}

void refits_killed(void)
{
	uint64_t before;
	tarn_refit *refit;

	refits_publish(ROWS, COLUMNS);
	before = refits_kept();
	for (int i = 0; i < 3; i++)
		run_victim();
	refits_check("a", TARN_F32, ROWS, COLUMNS, 1, "after a kill");
	refits_check("c", TARN_F32, ROWS, COLUMNS, 3, "after a kill");
	refits_check_kept(before, "after a kill");
	refit = refits_refit(NULL);
	refits_put(refit, "a", refits_numbers(TARN_F32, ROWS, COLUMNS, 20));
	refits_commit(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 20, "after the next refit");
}

void refits_victim(const char *socket, bool there)
{
	static const struct tarn_cuda_device any;

	snprintf(refits_daemon.socket, sizeof(refits_daemon.socket), "%s",
		socket);
	refits_where = there ? &any : NULL;
	victim();
}
