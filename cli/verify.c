/* SPDX-License-Identifier: MIT */
/*
 * tarn verify: are the bytes of files still those that were saved? A line for
 * each tensor that differs, and one for each file.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tarn/save.h>

#include "cli/message.h"
#include "cli/progress.h"
#include "cli/sink.h"
#include "cli/store.h"
#include "cli/text.h"

struct report {
	struct progress_bar progress;
	json_t *damaged; /* names; NULL: they are printed */
};

static void add_json(json_t *array, json_t *value)
{
	if (json_array_append_new(array, value) < 0)
		must(NULL);
}

static int print_damaged(
	void *arg, const struct tarn_file_entry *tensor, int result)
{
	struct report *report = arg;

	if (result != -EBADMSG)
		return 0;
	if (report->damaged) {
		add_json(report->damaged, json_text(tensor->name));
		return 0;
	}
	progress_end(&report->progress);
	fputs("differs: ", stdout);
	text_put(stdout, tensor->name);
	putchar('\n');
	return 0;
}

static int step(void *arg, uint64_t done, uint64_t total)
{
	struct report *report = arg;

	return progress_step(&report->progress, done, total);
}

static void print_verified(
	const char *path, const struct tarn_verify_info *info)
{
	text_put(stdout, path);
	printf(": %zu good, %zu differ%s, %zu without a checksum", info->good,
		info->bad, info->bad == 1 ? "s" : "", info->unchecked);
	if (info->read.bytes) {
		fputs("; ", stdout);
		info_print(&info->read);
	}
	putchar('\n');
	if (info->good + info->bad == 0 && info->unchecked)
		print_hint(
			"'tarn copy --checksums' makes a file that has some");
}

static json_t *verified_json(
	const char *path, json_t *damaged, const struct tarn_verify_info *info)
{
	json_t *object = must(json_object());

	json_put(object, "file", json_text(path));
	json_put(object, "good", json_u64(info->good));
	json_put(object, "differ", json_u64(info->bad));
	json_put(object, "unchecked", json_u64(info->unchecked));
	json_put(object, "damaged", damaged);
	info_json(object, &info->read);
	return object;
}

/* As print_error has it; damaged is dropped. */
static json_t *failed_json(const char *path, json_t *damaged)
{
	json_t *object = must(json_object());

	json_decref(damaged);
	json_put(object, "file", json_text(path));
	json_put(object, "error", json_text(tarn_error_message()));
	return object;
}

/* files is NULL where people read. */
static int verify(const char *path, enum tarn_io_mode io_mode, json_t *files)
{
	_cleanup_file_ tarn_file *file = NULL;
	struct report report = {.damaged = files ? must(json_array()) : NULL};
	const struct tarn_verify_options options = {.tensor = print_damaged,
		.progress = step,
		.arg = &report,
		.io_mode = io_mode};
	struct tarn_verify_info info = {0};
	int r = tarn_file_open(path, &file);

	if (r >= 0) {
		progress_begin(&report.progress);
		r = tarn_file_verify(file, &options, &info);
		progress_end(&report.progress);
	}
	if (r < 0)
		print_error();
	/* Nothing is known of a file that could not be read. */
	if (files)
		add_json(files,
			r < 0 && !info.bad
				? failed_json(path, report.damaged)
				: verified_json(path, report.damaged, &info));
	else if (r >= 0 || info.bad)
		print_verified(path, &info);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

int cmd_verify(int argc, char **argv)
{
	const char *io_mode_text = NULL;
	bool json = false;
	const struct option_row rows[] = {
		{.name = "io",
			.letter = 'I',
			.value = "MODE",
			.ret_text = &io_mode_text,
			.help = "how bytes travel: auto, buffered (by the "
				"page cache)\nor direct (past it)"},
		OPTION_JSON(&json),
		{0},
	};
	const struct usage usage = {.verb = "verify",
		.arguments = "[OPTION]... FILE...",
		.about = "Reads the tensors of files that have checksums, and "
			 "compares. Exit status 1 if\none differs, or cannot "
			 "be read. The index of a sharded checkpoint stands "
			 "for all\nof its files.",
		.options = rows,
		.args_min = 1,
		.args_max = -1};
	json_t *files = NULL, *object;
	int n, r, io_mode, status = EXIT_DONE;
	char **args;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	io_mode = io_mode_parse(io_mode_text);
	if (io_mode < 0)
		return usage_failed(&usage,
			"--io needs auto, buffered or direct, not '%s'",
			io_mode_text);
	if (json)
		files = must(json_array());
	for (int i = 0; i < n; i++)
		if (verify(args[i], (enum tarn_io_mode)io_mode, files) !=
			EXIT_DONE)
			status = EXIT_FAILED;
	if (!json)
		return status;
	object = must(json_object());
	json_put(object, "files", files);
	r = json_print(object);
	return r == EXIT_DONE ? status : r;
}
