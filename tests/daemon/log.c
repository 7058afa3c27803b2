/* SPDX-License-Identifier: MIT */
/*
 * A line of the log stays one line that can be parsed, whatever is put into
 * it: quotes, newlines, bytes that are no UTF-8, texts longer than a line. A
 * file's name that looks like another event must not be read as one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/loop/log.h"
#include "tests/kit/tap.h"

static char path[256];

/* What the next events write, instead of to stderr. */
static int begin(void)
{
	int saved = dup(STDERR_FILENO);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (saved < 0 || fd < 0 || dup2(fd, STDERR_FILENO) < 0)
		bail("stderr cannot be replaced by %s", path);
	fd_close(fd);
	return saved;
}

static const char *end(int saved)
{
	static char seen[16384];
	ssize_t n = pread(STDERR_FILENO, seen, sizeof(seen) - 1, 0);

	seen[n < 0 ? 0 : n] = '\0';
	dup2(saved, STDERR_FILENO);
	fd_close(saved);
	return seen;
}

static void is_logged(const char *wanted, const char *text, const char *what)
{
	char line[512];
	int saved = begin();

	log_info("seen", log_text("text", text));
	snprintf(line, sizeof(line),
		"tarnd[%d]: seen role=tester text=\"%s\"\n", (int)getpid(),
		wanted);
	is_str(line, end(saved), "the log line is as expected: %s", what);
}

static void test_texts(void)
{
	is_logged("m.st", "m.st", "a text is quoted");
	is_logged("", NULL, "none is empty");
	is_logged("a\\\"b\\\\c", "a\"b\\c", "quotes and backslashes");
	is_logged("a\\nend role=\\\"keeper\\\"", "a\nend role=\"keeper\"",
		"a second line in a text is none");
	is_logged("\\x1b[2J\\x7f", "\x1b[2J\x7f", "control characters");
	is_logged("\\xc2\\x9b", "\xc2\x9b",
		"control characters of two bytes are escaped");
	is_logged("\xc3\xa4\xf0\x9f\x8f\x94", "\xc3\xa4\xf0\x9f\x8f\x94",
		"letters stay");
	is_logged("\\xff\\xc3", "\xff\xc3", "what is no UTF-8 does not");
}

static void test_numbers(void)
{
	char line[256];
	int saved = begin();

	log_warning("numbers", log_i64("less", INT64_MIN),
		log_u64("more", UINT64_MAX));
	log_error("bare");
	log_event("%d sentences", 2);
	snprintf(line, sizeof(line),
		"tarnd[%1$d]: numbers role=tester less=-9223372036854775808 "
		"more=18446744073709551615\n"
		"tarnd[%1$d]: bare role=tester\n"
		"tarnd[%1$d]: note role=tester text=\"2 sentences\"\n",
		(int)getpid());
	is_str(line, end(saved), "numbers are bare, and may be missing");
}

static void test_long(void)
{
	char text[5000];
	const char *seen;
	int saved = begin();
	size_t n;

	memset(text, '\n', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	log_info("long", log_text("text", text), log_u64("after", 1));
	seen = end(saved);
	n = strlen(seen);
	if (!ok(n > 2000 && n <= 2048, "a long text is cut"))
		diag("%zu bytes", n);
	is_str("\\n\"\n", n > 4 ? seen + n - 4 : seen,
		"a cut text ends behind a whole escape, with its quotes "
		"closed");
	is_int((int64_t)n - 1, strchr(seen, '\n') - seen,
		"a cut text is one line");
}

static void test_journal(void)
{
	char stream[64];
	struct stat st;
	int saved = begin();

	fstat(STDERR_FILENO, &st);
	snprintf(stream, sizeof(stream), "%llu:%llu",
		(unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_error("first");
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_error("second");
	unsetenv("JOURNAL_STREAM");
	has_str("<3>first role=tester\ntarnd[", end(saved),
		"only lines for the journal have priorities");
}

int main(void)
{
	snprintf(path, sizeof(path), "%s/log", test_tmpdir());
	log_role("tester");
	test_texts();
	test_numbers();
	test_long();
	test_journal();
	unlink(path);
	return done(13);
}
