/* SPDX-License-Identifier: MIT */
/*
 * A publication that is said again, as to a server that took over: it is done
 * once. What is found in the table is answered from there; what others may
 * have displaced or removed since is refused, since nobody can tell whether
 * it was done; what nobody has touched is done.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "shm/table.h"
#include "tests/daemon_helper.h"
#include "tests/raw_client.h"
#include "tests/tap.h"

static struct daemon daemon;
static struct raw raw;
static struct table table;
static tarn_store *other;

static uint64_t now(void)
{
	return table.header->committed + 1;
}

/* One byte under a name. */
static size_t write_down(unsigned char *body, const char *name, uint64_t since)
{
	struct {
		struct msg_publish head;
		struct msg_source source;
		struct msg_name name;
		int64_t shape, stride;
		char text[8];
		unsigned char bytes[8];
	} m = {
		.head = {.n_sources = 1, .n_names = 1, .since = since},
		.source = {.kind = SOURCE_BYTES, .size = 1},
		.name = {.name_size = (uint16_t)strlen(name),
			.dtype = TARN_U8,
			.ndim = 1},
		.shape = 1,
		.stride = 1,
		.bytes = {42},
	};

	memcpy(m.text, name, strlen(name));
	memcpy(body, &m, sizeof(m));
	return sizeof(m);
}

/* The answer to a publication under that serial, said again or not. */
static int answer(const char *name, uint32_t serial, uint64_t since, bool again)
{
	unsigned char body[256];
	size_t size = write_down(body, name, since);
	struct wire_writer *writer;

	if (wire_writer_new(1 << 20, &writer) < 0)
		bail("writer");
	raw.error = 0;
	if (again)
		wire_push_again(
			writer, WIRE_PUBLISH, serial, body, size, NULL, 0);
	else
		wire_push(writer, WIRE_PUBLISH, serial, body, size, NULL, 0);
	wire_flush(writer, raw.fd);
	wire_writer_free(writer);
	return raw_answer(&raw);
}

static int64_t version_of(const char *name)
{
	struct table_name found;
	int r = table_find(&table, name, strlen(name), &found);

	return r < 0 ? r : (int64_t)found.version;
}

static void publish(const char *name)
{
	const int64_t shape[] = {1};
	struct tarn_publish_item item = {.name = name};

	if (tarn_store_create(other, TARN_F32, 1, shape, 0, &item.tensor) < 0 ||
		tarn_store_publish(other, &item, 1, NULL, NULL) < 0)
		bail("%s: %s", name, tarn_error_message());
	tarn_tensor_unref(item.tensor);
}

static void refused(const char *name, uint32_t serial, uint64_t since)
{
	int64_t version = version_of(name);

	is_int(WIRE_ERROR, answer(name, serial, since, true), "it is refused");
	is_int(EIO, raw.error, "for nobody can tell");
	has_str(name, raw.text, "by name");
	is_int(version, version_of(name), "and nothing happens");
}

static void test_found(void)
{
	is_int(WIRE_PUBLISHED, answer("a", 100, now(), false), "published");
	is_int(1, version_of("a"), "as the first version");
	is_int(WIRE_PUBLISHED, answer("a", 100, now() - 1, true), "and again");
	is_int(1, version_of("a"), "which is the first version still");
	publish("a");
	is_int(WIRE_PUBLISHED, answer("a", 100, now() - 2, true),
		"when another has come since, it is found too");
	is_int(2, version_of("a"), "and the other stands");
}

static void test_displaced(void)
{
	uint64_t since = now();

	is_int(WIRE_PUBLISHED, answer("b", 101, since, false), "published");
	publish("b");
	publish("b");
	diag("two others have come since");
	refused("b", 101, since);
}

static void test_removed(void)
{
	uint64_t since = now();

	is_int(WIRE_PUBLISHED, answer("c", 102, since, false), "published");
	if (tarn_store_remove(other, "c") < 0)
		bail("%s", tarn_error_message());
	diag("it was removed since");
	refused("c", 102, since);
}

static void test_lost(void)
{
	uint64_t since = now();

	publish("x");
	is_int(WIRE_PUBLISHED, answer("d", 103, since, true),
		"what the dead one never read is done, whatever others did");
	is_int(1, version_of("d"), "once");
	is_int(WIRE_PUBLISHED, answer("b", 104, now(), true),
		"also under a name that stands");
	is_int(4, version_of("b"), "as its next version");
}

int main(void)
{
	daemon_start(&daemon, "sock", NULL);
	raw_open(&raw, daemon.socket);
	if (table_map(raw.table, false, &table) < 0 ||
		tarn_store_open(daemon.socket, &other) < 0)
		bail("%s", tarn_error_message());
	test_found();
	test_displaced();
	test_removed();
	test_lost();
	tarn_store_unref(other);
	table_unmap(&table);
	raw_close(&raw);
	is_int(0, daemon_stop(&daemon), "the daemon ends well");
	return done();
}
