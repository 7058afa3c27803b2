// SPDX-License-Identifier: MIT
/* What a load begins and ends with on each rank: its file, and its set. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/snapshot.h>

#include "base/checked.h"
#include "mpi/load.h"
#include "mpi/type.h"

#define FIELD "tarn.file"
#define SHOWN 500 /* bytes of a path in the error about two files */

/* ---- what this rank has ---------------------------------------------- */

static int check_options(const struct tarn_mpi_load_options *options)
{
	for (size_t i = 0; i < ARRAY_SIZE(options->reserved); i++)
		if (options->reserved[i])
			return tarn_error_set(EINVAL,
				"struct tarn_mpi_load_options: reserved word "
				"%zu is 0x%llx, not 0",
				i, (unsigned long long)options->reserved[i]);
	if (options->timeout_ms < 0)
		return tarn_error_set(EINVAL,
			"a timeout of %d ms; more than 0 is wanted",
			options->timeout_ms);
	return 0;
}

/* Appends the parts of a path, without "." and "..", with a slash between. */
static int add_parts(char *to, size_t size, const char *path)
{
	size_t used = strlen(to);

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && !strncmp(path, "..", 2)) {
			char *slash = strrchr(to, '/');

			used = slash ? (size_t)(slash - to) : 0;
			to[used] = '\0';
		} else if (n && !(n == 1 && *path == '.')) {
			if (used + n + 2 > size)
				return tarn_error_set(ENAMETOOLONG,
					"the path is too long for a name");
			used += (size_t)sprintf(to + used, "%s%.*s",
				used ? "/" : "", (int)n, path);
		}
		path += n + !!path[n];
	}
	return 0;
}

/* The absolute path without its first slash, or what the caller says. */
static int find_prefix(struct load *load)
{
	char folder[PATH_MAX];
	int r = 0;

	if (load->options.name) {
		if (!*load->options.name ||
			strlen(load->options.name) >= sizeof(load->prefix))
			return tarn_error_set(EINVAL,
				"the name of a set has 1 to %d bytes, not %zu",
				TARN_NAME_MAX, strlen(load->options.name));
		strcpy(load->prefix, load->options.name);
		return 0;
	}
	if (*load->path != '/') {
		if (!getcwd(folder, sizeof(folder)))
			return tarn_error_set(
				errno, "getcwd: %s", strerror(errno));
		r = add_parts(load->prefix, sizeof(load->prefix), folder);
	}
	return r < 0 ? r
		     : add_parts(
			       load->prefix, sizeof(load->prefix), load->path);
}

int load_describe(struct load *load)
{
	const struct tarn_store_options in = {.pool = load->options.pool};
	int r = check_options(&load->options);

	if (r >= 0)
		r = find_prefix(load);
	if (r >= 0)
		r = source_open(load->path, &load->source);
	if (r >= 0 && !load->store)
		r = tarn_store_open(load->options.socket, &in, &load->store);
	if (r >= 0 && load->options.prepare)
		r = load->options.prepare(load->options.arg, load->store);
	if (r >= 0)
		r = nodes_key(load->store, load->prefix, &load->says);
	if (r >= 0)
		r = nodes_begin(load->comm, &load->nodes_post);
	if (r < 0)
		return r;
	snprintf(load->version, sizeof(load->version),
		"%016" PRIx64 "%016" PRIx64, load->source.digest.high,
		load->source.digest.low);
	return 0;
}

/* ---- the same file --------------------------------------------------- */

struct identity {
	struct digest digest;
	uint64_t bytes;
	int64_t mtime_ns;
	char version[33], node[NODE_MAX], path[SHOWN];
};

static void identity_of(const struct load *load, struct identity *ret)
{
	memset(ret, 0, sizeof(*ret)); /* gaps travel, too */
	ret->digest = load->source.digest;
	ret->bytes = load->source.bytes;
	ret->mtime_ns = load->source.mtime_ns;
	memcpy(ret->version, load->version, sizeof(ret->version));
	memcpy(ret->node, load->node, sizeof(ret->node));
	snprintf(ret->path, sizeof(ret->path), "%s", load->path);
}

int load_compare(struct load *load, struct said *said)
{
	struct identity first, mine;
	int r;

	identity_of(load, &mine);
	first = mine;
	r = told_by(0, "rank 0", &first, sizeof(first), load->comm,
		&load->deadline);
	if (r < 0 || digest_same(&first.digest, &mine.digest))
		return r;
	said_failed(said,
		tarn_error_set(EINVAL,
			"it has another file than rank 0: %.300s with "
			"%" PRIu64 " bytes, changed at %" PRId64
			" ns, digest %s; node %s has %.300s with %" PRIu64
			" bytes, changed at %" PRId64
			" ns, digest %s; copy one of them, with its time, to "
			"all nodes",
			mine.path, mine.bytes, mine.mtime_ns, mine.version,
			first.node, first.path, first.bytes, first.mtime_ns,
			first.version));
	return 0;
}

/* ---- the set --------------------------------------------------------- */

static struct tarn_set_field field_of(const struct load *load)
{
	return (struct tarn_set_field) {.key = FIELD, .value = load->version};
}

/* malloc'ed; NULL: out of memory. */
static char *name_of(const struct load *load, size_t i, bool whole)
{
	const char *name = tarn_file_at(load->source.file, i)->name;
	char *text;

	if (!whole)
		return strdup(name);
	return asprintf(&text, "%s/%s", load->prefix, name) < 0 ? NULL : text;
}

/* Of this version of the file, and of one publication: what a refit or another
 * one has changed since then is not the file's. The fields are the last item. */
static int check_items(const struct load *load, const struct tarn_snapshot *s)
{
	tarn_set_fields *fields;
	const char *version;
	int r = tarn_set_fields_of(s->items[s->n - 1].tensor, &fields);

	if (r < 0)
		return r;
	version = tarn_set_fields_get(fields, FIELD);
	if (tarn_set_fields_count(fields) != 1 || !version ||
		strcmp(version, load->version) != 0)
		r = tarn_error_set(ESTALE,
			"'%s' is another version of the file", load->prefix);
	tarn_set_fields_free(fields);
	for (size_t i = 0; r >= 0 && i < s->n; i++)
		if (s->items[i].commit != s->items[s->n - 1].commit)
			r = tarn_error_set(ESTALE,
				"'%s' was published after the file was loaded",
				s->items[i].name);
	return r;
}

int load_has(const struct load *load)
{
	size_t n = tarn_file_count(load->source.file);
	_cleanup_free_ char **names = calloc(n + 1, sizeof(*names));
	struct tarn_snapshot *s = NULL;
	int r = names ? 0 : tarn_error_set(ENOMEM, "out of memory");

	if (!n)
		return r;
	for (size_t i = 0; r >= 0 && i <= n; i++) {
		if (i < n)
			names[i] = name_of(load, i, true);
		else if (asprintf(&names[i], "%s/" TARN_SET_FIELDS,
				 load->prefix) < 0)
			names[i] = NULL;
		r = names[i] ? 0 : tarn_error_set(ENOMEM, "out of memory");
	}
	if (r >= 0)
		r = tarn_store_snapshot_names(
			load->store, (const char *const *)names, n + 1, &s);
	if (r >= 0)
		r = check_items(load, s);
	tarn_snapshot_free(s);
	for (size_t i = 0; names && i <= n; i++)
		free(names[i]);
	return r;
}

static int publish(
	struct load *load, tarn_tensor *memory, struct tarn_publish_item *items)
{
	size_t n = tarn_file_count(load->source.file);
	struct tarn_set_field field = field_of(load);
	const struct tarn_set_options options = {
		.fields = &field, .n_fields = 1};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		items[i].name = name_of(load, i, false);
		r = items[i].name ? source_tensor(&load->source,
					    tarn_tensor_storage(memory), i,
					    &items[i].tensor)
				  : tarn_error_set(ENOMEM, "out of memory");
	}
	if (r >= 0)
		r = tarn_set_publish(
			load->store, load->prefix, items, n, &options, NULL);
	for (size_t i = 0; i < n; i++) {
		free((char *)items[i].name);
		tarn_tensor_unref(items[i].tensor);
	}
	return r;
}

int load_publish(struct load *load, tarn_tensor *memory)
{
	_cleanup_free_ struct tarn_publish_item *items =
		calloc(tarn_file_count(load->source.file) + 1, sizeof(*items));

	if (!items)
		return tarn_error_set(ENOMEM, "out of memory");
	return publish(load, memory, items);
}
