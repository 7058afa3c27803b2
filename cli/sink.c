/* SPDX-License-Identifier: MIT */
/*
 * The file that tensors go to. Every verb that writes one has the same options
 * for it, and reports the result in the same way.
 */
#include "cli/sink.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/cli.h"
#include "cli/message.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/size.h"

/* Keys are borrowed. */
static void keep(void *key)
{
	(void)key;
}

void sink_free(struct sink *sink)
{
	for (size_t i = 0; sink->keys && i < sink->metadata.n; i++)
		free(sink->keys[i]);
	free(sink->keys);
	tdestroy(sink->known, keep);
	free(sink->pairs);
	option_list_free(&sink->metadata);
}

/* ---- options ------------------------------------------------------- */

static bool ends_in(const char *path, const char *ending)
{
	size_t n = strlen(path), m = strlen(ending);

	return n >= m && strcasecmp(path + n - m, ending) == 0;
}

bool sink_is_npy(const struct sink *sink)
{
	return sink->save.format && strcmp(sink->save.format, "npy") == 0;
}

/* Endings of other formats: a program that opens such a file by its ending
 * would find it broken. */
static int parse_path(struct sink *sink, const struct usage *usage)
{
	static const char *const others[] = {".npz", ".pt", ".pth", ".ckpt",
		".bin", ".h5", ".gguf", ".onnx", ".json"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (ends_in(sink->path, others[i]))
			return usage_failed(usage,
				"'%s': a file is written as .npy or as "
				".safetensors, not as %s",
				sink->path, others[i]);
	sink->save.format = ends_in(sink->path, ".npy") ? "npy" : "safetensors";
	return OPTIONS_DONE;
}

static int parse_align(struct sink *sink, const struct usage *usage)
{
	char *end;
	unsigned long n;

	if (!sink->align)
		return OPTIONS_DONE;
	errno = 0;
	n = strtoul(sink->align, &end, 10);
	if (*sink->align < '0' || *sink->align > '9' || *end || errno ||
		n == 0 || n > UINT32_MAX || (n & (n - 1)))
		return usage_failed(usage,
			"--align needs a power of two, not '%s'", sink->align);
	sink->save.align = (uint32_t)n;
	return OPTIONS_DONE;
}

int io_mode_parse(const char *text)
{
	static const char *const modes[] = {
		[TARN_IO_AUTO] = "auto",
		[TARN_IO_BUFFERED] = "buffered",
		[TARN_IO_DIRECT] = "direct",
	};

	for (size_t i = 0; text && i < ARRAY_SIZE(modes); i++)
		if (strcmp(text, modes[i]) == 0)
			return (int)i;
	return text ? -1 : TARN_IO_AUTO;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* A tree of the keys, since the file that they come from may have millions. */
bool sink_add_metadata(struct sink *sink, const char *key, const char *value)
{
	size_t n = sink->save.n_pairs;

	if (tfind(key, &sink->known, compare_keys))
		return false;
	must(tsearch(key, &sink->known, compare_keys));
	if ((n & (n - 1)) == 0) /* it is full: of 0, 1, 2, 4, ... */
		sink->pairs = must(reallocarray(
			sink->pairs, n ? 2 * n : 1, sizeof(sink->pairs[0])));
	sink->pairs[n] = (struct tarn_save_pair) {.key = key, .value = value};
	sink->save.pairs = sink->pairs;
	sink->save.n_pairs = n + 1;
	return true;
}

static int parse_metadata(struct sink *sink, const struct usage *usage)
{
	sink->keys = must(calloc(sink->metadata.n + 1, sizeof(char *)));
	for (size_t i = 0; i < sink->metadata.n; i++) {
		const char *text = sink->metadata.at[i];
		const char *equals = strchr(text, '=');

		if (!equals || equals == text)
			return usage_failed(usage,
				"--metadata needs KEY=VALUE, not '%s'", text);
		if (strncmp(text, "xxh3:", 5) == 0)
			return usage_failed(usage,
				"--metadata: keys that begin with 'xxh3:' are "
				"checksums; --checksums makes them");
		sink->keys[i] = must(strndup(text, (size_t)(equals - text)));
		if (!sink_add_metadata(sink, sink->keys[i], equals + 1))
			return usage_failed(usage,
				"--metadata has the key '%s' twice",
				sink->keys[i]);
	}
	return OPTIONS_DONE;
}

int sink_parse(struct sink *sink, const struct usage *usage)
{
	int io_mode = io_mode_parse(sink->io_mode);
	int r = parse_path(sink, usage);

	if (r == OPTIONS_DONE)
		r = parse_align(sink, usage);
	if (r == OPTIONS_DONE)
		r = parse_metadata(sink, usage);
	if (r != OPTIONS_DONE)
		return r;
	if (io_mode < 0)
		return usage_failed(usage,
			"--io needs auto, buffered or direct, not '%s'",
			sink->io_mode);
	sink->save.io_mode = (enum tarn_io_mode)io_mode;
	sink->save.checksums = sink->checksums;
	sink->save.exclusive = sink->exclusive;
	return OPTIONS_DONE;
}

/* ---- saving -------------------------------------------------------- */

int sink_save(struct sink *sink, const struct tarn_save_item *items, size_t n,
	struct tarn_copy_info *ret)
{
	struct progress_bar progress;
	int r;

	progress_begin_tidily(&progress);
	sink->save.progress = progress_step;
	sink->save.arg = &progress;
	r = tarn_save(sink->path, items, n, &sink->save, ret);
	progress_end(&progress);
	if (r < 0)
		print_error();
	return r;
}

/* ---- telling ------------------------------------------------------- */

/* A copy may read what is cached and write past the cache. */
static void print_io(const struct tarn_copy_info *info)
{
	double all = (double)info->read + (double)info->written;
	double share = all > 0 ? 100 * (double)info->direct / all : 0;

	if (share < 1)
		fputs("through the page cache", stdout);
	else if (share > 99)
		fputs("direct", stdout);
	else
		printf("%.0f%% direct", share);
}

void info_print(const struct tarn_copy_info *info)
{
	char bytes[SIZE_TEXT_MAX], rate[SIZE_TEXT_MAX];
	double seconds = info->seconds;

	printf("%s in %.3f s (%s/s) by %s, ",
		size_text((double)info->bytes, bytes), seconds,
		size_text(
			seconds > 0 ? (double)info->bytes / seconds : 0, rate),
		info->engine ? info->engine : "no engine");
	print_io(info);
	printf("; CPU %.3f s", info->cpu_seconds);
}

void info_json(json_t *object, const struct tarn_copy_info *info)
{
	json_put(object, "bytes", json_u64(info->bytes));
	json_put(object, "seconds", must(json_real(info->seconds)));
	json_put(object, "cpu_seconds", must(json_real(info->cpu_seconds)));
	json_put(object, "engine",
		info->engine ? json_text(info->engine) : json_null());
	json_put(object, "read", json_u64(info->read));
	json_put(object, "written", json_u64(info->written));
	json_put(object, "cached", json_u64(info->cached));
	json_put(object, "direct", json_u64(info->direct));
	json_put(object, "requests", json_u64(info->requests));
}

void sink_print(
	const struct sink *sink, size_t n, const struct tarn_copy_info *info)
{
	text_put(stdout, sink->path);
	printf(": %zu tensor%s, ", n, n == 1 ? "" : "s");
	info_print(info);
}

json_t *sink_json(
	const struct sink *sink, size_t n, const struct tarn_copy_info *info)
{
	json_t *object = must(json_object());

	json_put(object, "file", json_text(sink->path));
	json_put(object, "tensors", json_u64(n));
	info_json(object, info);
	return object;
}
