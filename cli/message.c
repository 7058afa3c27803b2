/* SPDX-License-Identifier: MIT */
/*
 * Messages of the command on stderr. Sentences quote names of files and
 * tensors, so they are escaped like names.
 */
#include "cli/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/error.h>

#include "cli/cli.h"
#include "cli/text.h"

static void put_line(const char *before, const char *fmt, va_list ap)
{
	char *line = NULL, *whole = NULL;
	size_t size = 0;
	FILE *f;

	/* First, as it may speak of errno. */
	if (vasprintf(&line, fmt, ap) < 0)
		line = NULL;
	/* The output on stdout came before it. */
	fflush(stdout);
	/* By one write: others may say something at that moment, as the ranks of
	 * a job do. */
	f = open_memstream(&whole, &size);
	if (f) {
		fputs(before, f);
		text_put(f, line ? line : "out of memory");
		fputc('\n', f);
	}
	if (f && fclose(f) == 0)
		fwrite(whole, 1, size, stderr);
	else
		fputs("tarn: out of memory\n", stderr);
	free(whole);
	free(line);
}

int print_failure(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_line("tarn: ", fmt, ap);
	va_end(ap);
	return EXIT_FAILED;
}

int print_error(void)
{
	const char *sentence = tarn_error_message();

	return print_failure(
		"%s", *sentence ? sentence : "it failed, silently");
}

void print_hint(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_line("  ", fmt, ap);
	va_end(ap);
}

void *must(void *p)
{
	if (!p)
		exit(print_failure("out of memory"));
	return p;
}

int print_end(void)
{
	bool failed = ferror(stdout);

	errno = 0;
	if (fflush(stdout) == 0 && !failed)
		return EXIT_DONE;
	if (errno != EPIPE)
		print_failure("the output cannot be written: %s",
			errno ? strerror(errno) : "an earlier write failed");
	return EXIT_FAILED;
}
