/* SPDX-License-Identifier: MIT */
/*
 * Public structs keep their size for ever: a program built with another
 * version's headers works, or gets an error that says why not. The program of
 * a later version is played by one that sets a reserved word.
 */
#include <tarn/tarn.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static const char path[] = "a.safetensors"; /* with tensor "a" */

/* ---- sizes ----------------------------------------------------------- */

/* clang-format off */
#define SIZE_IS(name, size) {#name, sizeof(struct name), size}
#define ZERO {0}
/* clang-format on */

static void test_sizes(void)
{
	static const struct {
		const char *name;
		size_t seen, wanted;
	} sizes[] = {
		SIZE_IS(tarn_axis, 32),
		SIZE_IS(tarn_channel_info, 144),
		SIZE_IS(tarn_channel_options, 88),
		SIZE_IS(tarn_channel_seen, 152),
		SIZE_IS(tarn_completion, 448),
		SIZE_IS(tarn_copy_info, 136),
		SIZE_IS(tarn_copy_options, 136),
		SIZE_IS(tarn_data_column, 32),
		SIZE_IS(tarn_data_field, 168),
		SIZE_IS(tarn_data_info, 96),
		SIZE_IS(tarn_data_options, 144),
		SIZE_IS(tarn_data_order, 264),
		SIZE_IS(tarn_data_permutation, 56),
		SIZE_IS(tarn_data_request, 112),
		SIZE_IS(tarn_data_sample, 104),
		SIZE_IS(tarn_data_source_info, 120),
		SIZE_IS(tarn_data_source_options, 72),
		SIZE_IS(tarn_data_weights, 32),
		SIZE_IS(tarn_descriptor, 256),
		SIZE_IS(tarn_gather_options, 72),
		SIZE_IS(tarn_layout, 208),
		SIZE_IS(tarn_load_info, 112),
		SIZE_IS(tarn_load_options, 96),
		SIZE_IS(tarn_publish_item, 32),
		SIZE_IS(tarn_publish_options, 88),
		SIZE_IS(tarn_replicate_options, 80),
		SIZE_IS(tarn_report_client, 72),
		SIZE_IS(tarn_report_daemon, 456),
		SIZE_IS(tarn_report_load, 312),
		SIZE_IS(tarn_report_nodes, 576),
		SIZE_IS(tarn_report_pool, 224),
		SIZE_IS(tarn_reshape_plan, 2504),
		SIZE_IS(tarn_save_item, 72),
		SIZE_IS(tarn_save_options, 128),
		SIZE_IS(tarn_save_pair, 32),
		SIZE_IS(tarn_snapshot_item, 40),
		SIZE_IS(tarn_store_options, 72),
		SIZE_IS(tarn_stream_options, 88),
		SIZE_IS(tarn_stream_progress, 104),
		SIZE_IS(tarn_verify_info, 224),
		SIZE_IS(tarn_verify_options, 104),
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		is_int((int64_t)sizes[i].wanted, (int64_t)sizes[i].seen,
			"struct %s has the size that was frozen",
			sizes[i].name);
}

/* tarn_version() is configure.ac's. */
static void test_version(void)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", TARN_VERSION_MAJOR,
		TARN_VERSION_MINOR, TARN_VERSION_MICRO);
	is_str(text, tarn_version(),
		"the header has the version of configure.ac");
	is_int(TARN_VERSION_MAJOR * 1000000 + TARN_VERSION_MINOR * 1000 +
			TARN_VERSION_MICRO,
		TARN_VERSION_NUMBER,
		"the version's number is made of the header's three parts");
}

/* ---- what a later program sets ---------------------------------------- */

static void is_refused(const char *name, int r)
{
	is_int(-EINVAL, r, "a reserved word that is set in %s is refused",
		name);
	ok(strstr(tarn_error_message(), name) &&
			strstr(tarn_error_message(), tarn_version()),
		"the sentence names struct %s and the library's version", name);
}

/* Each of the words in turn, so that none is overlooked. */
#define REFUSES(type, value, call)                                             \
	do {                                                                   \
		struct type o = value;                                         \
		size_t n_words = sizeof(o.reserved) / sizeof(uint64_t);        \
		int r = -EINVAL, first = 0;                                    \
                                                                               \
		for (size_t i = 0; i < n_words && r == -EINVAL; i++) {         \
			o.reserved[i] = 1;                                     \
			r = (call);                                            \
			o.reserved[i] = 0;                                     \
			first += r == -EINVAL;                                 \
		}                                                              \
		is_refused(#type, r);                                          \
		is_int((int64_t)n_words, first,                                \
			"every reserved word of %s is refused when set",       \
			#type);                                                \
	} while (0)

static void test_copies(tarn_tensor *dst, tarn_tensor *src, tarn_file *file)
{
	tarn_stream *s = NULL;
	tarn_tensor *t = NULL;

	REFUSES(tarn_copy_options, ZERO, tarn_copy(dst, src, &o, NULL));
	REFUSES(tarn_copy_options, ZERO,
		tarn_file_load(file, "a", &o, NULL, &t));
	REFUSES(tarn_gather_options, ZERO, tarn_gather(dst, src, src, &o));
	REFUSES(tarn_stream_options, ZERO, tarn_stream_new(&o, &s));
	if (tarn_stream_new(NULL, &s) < 0)
		bail("%s", tarn_error_message());
	REFUSES(tarn_copy_options, ZERO,
		tarn_stream_copy(s, dst, src, &o, -1, 0, NULL));
	tarn_stream_free(s);
}

static int save_with_pair(
	const struct tarn_save_item *item, const struct tarn_save_pair *pair)
{
	struct tarn_save_options options = {.pairs = pair, .n_pairs = 1};

	return tarn_save(path, item, 1, &options, NULL);
}

static void test_files(tarn_tensor *src, tarn_file *file)
{
	struct tarn_save_item item = {.name = "a", .tensor = src};
	struct tarn_copy_options convert = {.reserved = {1}};
	struct tarn_layout layout;

	REFUSES(tarn_save_options, ZERO, tarn_save(path, &item, 1, &o, NULL));
	REFUSES(tarn_save_pair,
		((struct tarn_save_pair) {.key = "k", .value = "v"}),
		save_with_pair(&item, &o));
	REFUSES(tarn_save_item, ((struct tarn_save_item) {"a", .tensor = src}),
		tarn_save(path, &o, 1, NULL, NULL));
	item.convert = &convert;
	is_refused("tarn_copy_options", tarn_save(path, &item, 1, NULL, NULL));
	REFUSES(tarn_axis, ((struct tarn_axis) {.name = "b", .size = 3}),
		tarn_layout_rearrange(tarn_tensor_layout(src), "(a b) -> a b",
			&o, 1, &layout));
	REFUSES(tarn_verify_options, ZERO, tarn_file_verify(file, &o, NULL));
}

static void test_store(tarn_store *store, tarn_tensor *src, tarn_file *file)
{
	struct tarn_publish_item item = {.name = "a", .tensor = src};
	tarn_channel *channel = NULL;
	tarn_store *second = NULL;
	tarn_tensor *t = NULL;

	REFUSES(tarn_store_options, ZERO,
		tarn_store_open(tarn_store_socket(store), &o, &second));
	REFUSES(tarn_load_options, ZERO,
		tarn_store_load(store, file, &o, NULL, NULL));
	REFUSES(tarn_load_options, ZERO, tarn_store_get(store, "a", &o, &t));
	REFUSES(tarn_load_options, ZERO,
		tarn_store_get_from_file(store, file, "a", &o, &t));
	REFUSES(tarn_publish_options, ZERO,
		tarn_store_publish(store, &item, 1, &o, NULL));
	REFUSES(tarn_publish_item,
		((struct tarn_publish_item) {.name = "a", .tensor = src}),
		tarn_store_publish(store, &o, 1, NULL, NULL));
	REFUSES(tarn_channel_options, ZERO,
		tarn_channel_open(store, "c", &o, &channel));
	REFUSES(tarn_replicate_options, ZERO,
		tarn_store_replicate(store, "a", 0, &o, NULL));
	REFUSES(tarn_replicate_options, ZERO,
		tarn_store_migrate(store, "a", 0, &o, NULL));
	is_int(-ENOENT, tarn_store_lookup(store, "a", &t),
		"the refused calls published nothing");
}

/* ---- what the library fills -------------------------------------------- */

#define FILLS(type, call)                                                      \
	do {                                                                   \
		struct type o;                                                 \
		static const struct type zero;                                 \
		int r;                                                         \
                                                                               \
		memset(&o, 0xff, sizeof(o));                                   \
		r = (call);                                                    \
		if (r < 0)                                                     \
			diag("%s", tarn_error_message());                      \
		ok(r >= 0 && memcmp(o.reserved, zero.reserved,                 \
				     sizeof(o.reserved)) == 0,                 \
			"the reserved words of %s are set to 0", #type);       \
	} while (0)

static int one_copy(tarn_stream *s, tarn_tensor *dst, tarn_tensor *src,
	struct tarn_completion *ret)
{
	int r = tarn_stream_copy(s, dst, src, NULL, -1, 0, NULL);

	return r < 0 ? r : tarn_stream_reap(s, 1, -1, ret, 1);
}

static int progress(tarn_stream *s, struct tarn_stream_progress *ret)
{
	tarn_stream_progress(s, ret);
	return 0;
}

static void test_results(tarn_tensor *dst, tarn_tensor *src, tarn_file *file)
{
	struct tarn_save_item item = {.name = "a", .tensor = src};
	tarn_stream *s = NULL;
	tarn_tensor *t = NULL;

	if (tarn_stream_new(NULL, &s) < 0)
		bail("%s", tarn_error_message());
	FILLS(tarn_copy_info, tarn_copy(dst, src, NULL, &o));
	FILLS(tarn_copy_info, tarn_file_load(file, "a", NULL, &o, &t));
	FILLS(tarn_copy_info, tarn_save(path, &item, 1, NULL, &o));
	FILLS(tarn_verify_info, tarn_file_verify(file, NULL, &o));
	FILLS(tarn_completion, one_copy(s, dst, src, &o));
	FILLS(tarn_stream_progress, progress(s, &o));
	tarn_tensor_unref(t);
	tarn_stream_free(s);
}

static int send_and_watch(tarn_channel *c, struct tarn_channel_seen *ret)
{
	uint64_t cursor = 0; /* from now on, says the first call */
	tarn_slot *slot;
	int r = tarn_channel_watch(c, &cursor, 0, ret);

	if (r == -ETIMEDOUT)
		r = tarn_channel_acquire(c, -1, &slot);
	if (r >= 0)
		r = tarn_slot_publish(slot);
	return r < 0 ? r : tarn_channel_watch(c, &cursor, 0, ret);
}

static void test_store_results(tarn_store *store, tarn_file *file)
{
	const struct tarn_channel_options options = {.slots = 2};
	tarn_channel *channel = NULL;

	FILLS(tarn_load_info, tarn_store_load(store, file, NULL, &o, NULL));
	if (tarn_channel_open(store, "c", &options, &channel) < 0)
		bail("%s", tarn_error_message());
	FILLS(tarn_channel_info, tarn_channel_info(channel, &o));
	FILLS(tarn_channel_seen, send_and_watch(channel, &o));
	must(tarn_channel_close(channel));
	tarn_channel_unref(channel);
}

static void set_up(
	tarn_tensor **ret_src, tarn_tensor **ret_dst, tarn_file **ret_file)
{
	const int64_t shape[] = {3};
	struct tarn_save_item item = {.name = "a"};
	int r = tarn_tensor_ones(TARN_F32, 1, shape, ret_src);

	item.tensor = *ret_src;
	if (r >= 0)
		r = tarn_tensor_zeros(TARN_F32, 1, shape, ret_dst);
	if (r >= 0)
		r = tarn_save(path, &item, 1, NULL, NULL);
	if (r >= 0)
		r = tarn_file_open(path, ret_file);
	if (r < 0)
		bail("%s", tarn_error_message());
}

int main(void)
{
	tarn_tensor *src = NULL, *dst = NULL;
	tarn_store *store = NULL;
	tarn_file *file = NULL;
	struct daemon server;

	test_sizes();
	test_version();
	if (chdir(getenv("TMPDIR")) < 0)
		bail("there is no $TMPDIR to work in");
	set_up(&src, &dst, &file);
	test_copies(dst, src, file);
	test_files(src, file);
	test_results(dst, src, file);
	tarn_file_unref(file);
	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	daemon_start(&server, "sock", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	test_store(store, src, file);
	test_store_results(store, file);
	tarn_store_unref(store);
	tarn_tensor_unref(src);
	tarn_tensor_unref(dst);
	tarn_file_unref(file);
	unlink(path);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(113);
}
