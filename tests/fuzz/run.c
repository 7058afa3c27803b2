/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target as a test: its whole corpus, and for a second bytes that are
 * made from it. The corpus is the inputs that once were a bug, each under a
 * name of its own, and those that libFuzzer kept as interesting, which make
 * check unpacks from an archive; so what was found stays found, by any
 * compiler.
 *
 * TARN_TEST_SEED repeats a run, TARN_TEST_ROUNDS makes it longer; a FILE as an
 * argument is run alone.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"
#include "tests/kit/tap.h"

#define INPUT_MAX (1u << 20)
#define MUTANT_MAX 4096u
#define SECONDS 1.0

struct input {
	char *name;
	uint8_t *bytes;
	size_t size;
};

static struct input *corpus;
static size_t n_corpus;
static struct input now; /* what the target has, for the last words */

/* ---- one input --------------------------------------------------------- */

static void print_input(void *arg)
{
	char line[3 * 32 + 1];

	diag("the input: %s, %zu bytes", now.name ? now.name : "a mutant",
		now.size);
	for (size_t i = 0; i < MIN(now.size, (size_t)MUTANT_MAX); i += 32) {
		size_t n = 0;

		for (size_t k = i; k < now.size && k < i + 32; k++)
			n += (size_t)sprintf(line + n, "%02x ", now.bytes[k]);
		diag("  %04zx: %s", i, line);
	}
}

/* In memory of exactly that size, so that a look past its end is seen. */
static void run(const char *name, const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size + !size);

	if (!copy)
		bail("no memory");
	if (size)
		memcpy(copy, bytes, size);
	now = (struct input) {(char *)name, copy, size};
	LLVMFuzzerTestOneInput(copy, size);
	now = (struct input) {0};
	free(copy);
}

/* ---- the corpus -------------------------------------------------------- */

static void read_input(const char *path, struct input *ret)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > INPUT_MAX)
		bail("%s: it cannot be read, or is too large", path);
	ret->bytes = malloc((size_t)st.st_size + 1);
	ret->name = strdup(path);
	if (!ret->bytes || !ret->name)
		bail("no memory");
	n = fd_pread(fd, ret->bytes, (size_t)st.st_size, 0);
	if (n < 0)
		bail("%s: %s", path, strerror((int)-n));
	ret->size = (size_t)n;
}

static int is_file(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void read_corpus(const char *top, const char *subfolder)
{
	_cleanup_free_ char *folder = NULL;
	struct dirent **entries;
	struct input *more;
	int n;

	if (asprintf(&folder, "%s/tests/fuzz/%s/%s", top ? top : ".", subfolder,
		    fuzz_name) < 0)
		bail("no memory");
	n = scandir(folder, &entries, is_file, alphasort);
	if (n <= 0)
		bail("%s: there is no corpus: %s", folder, strerror(errno));
	more = reallocarray(corpus, n_corpus + (size_t)n, sizeof(*corpus));
	if (!more)
		bail("no memory");
	corpus = more;
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0)
			bail("no memory");
		read_input(path, &corpus[n_corpus++]);
		free(entries[i]);
	}
	free(entries);
}

static void free_corpus(void)
{
	for (size_t i = 0; i < n_corpus; i++) {
		free(corpus[i].bytes);
		free(corpus[i].name);
	}
	free(corpus);
}

/* ---- mutants ----------------------------------------------------------- */

static void run_mutant(struct mutator *m)
{
	const struct input *from = &corpus[mutator_below(m, n_corpus)];
	const struct input *other = &corpus[mutator_below(m, n_corpus)];
	uint8_t mutant[MUTANT_MAX];
	size_t size = MIN(from->size, sizeof(mutant));

	memcpy(mutant, from->bytes, size);
	size = mutate(
		m, mutant, size, sizeof(mutant), other->bytes, other->size);
	run(NULL, mutant, size);
}

static void run_mutants(const char *dictionary)
{
	const char *more = getenv("TARN_TEST_ROUNDS");
	const char *seed = getenv("TARN_TEST_SEED");
	unsigned long rounds = more ? strtoul(more, NULL, 10) : 0, n = 0;
	static struct words words;
	struct mutator m = {.words = &words};
	int r = words_read(dictionary, &words);
	double until;

	if (r < 0 && r != -ENOENT)
		bail("%s: %s", dictionary, strerror(-r));
	m.state = seed ? strtoull(seed, NULL, 10) : 20261121;
	m.state += !m.state;
	diag("TARN_TEST_SEED=%llu", (unsigned long long)m.state);
	until = seconds() + SECONDS;
	do {
		run_mutant(&m);
		n++;
	} while (rounds ? n < rounds : seconds() < until);
	diag("%lu mutants", n);
	ok(n > 0, "%s: every mutant of its corpus is judged", fuzz_name);
}

/* ---- all --------------------------------------------------------------- */

/* A daemon's log is for people. What a sanitizer finds is still told. */
void __sanitizer_set_report_fd(void *fd) __attribute__((__weak__));

static void be_quiet(void)
{
	int told = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	_cleanup_fd_ int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (told < 0 || nowhere < 0 || dup2(nowhere, STDERR_FILENO) < 0)
		bail("/dev/null: %s", strerror(errno));
	if (__sanitizer_set_report_fd)
		__sanitizer_set_report_fd((void *)(intptr_t)told);
}

int main(int argc, char **argv)
{
	const char *top = getenv("top_srcdir");
	_cleanup_free_ char *dictionary = NULL;

	at_bail(print_input, NULL);
	if (argc > 1) {
		corpus = calloc(1, sizeof(*corpus));
		read_input(argv[1], &corpus[n_corpus++]);
		run(argv[1], corpus[0].bytes, corpus[0].size);
		free_corpus();
		ok(true, "%s: the file %s is judged", fuzz_name, argv[1]);
		return done(1);
	}
	if (asprintf(&dictionary, "%s/tests/fuzz/%s.dict", top ? top : ".",
		    fuzz_name) < 0)
		bail("no memory");
	be_quiet();
	read_corpus(top, "corpus");
	read_corpus(getenv("top_builddir"), "found");
	for (size_t i = 0; i < n_corpus; i++)
		run(corpus[i].name, corpus[i].bytes, corpus[i].size);
	ok(true, "%s: %zu files of its corpus are judged", fuzz_name, n_corpus);
	run_mutants(dictionary);
	free_corpus();
	return done(2);
}
