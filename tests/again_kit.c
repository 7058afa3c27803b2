/* SPDX-License-Identifier: MIT */
/* See again_kit.h. */
#include "tests/again_kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

#define ROOM "60100" /* bytes of requests under way; half of one, and some */

struct raw raw;
struct table table;
tarn_store *other;

int answer_to(uint16_t type, uint32_t serial, const void *body, size_t size,
	bool again)
{
	struct wire_writer *writer;

	if (wire_writer_new(1 << 20, &writer) < 0)
		bail("writer");
	raw.error = 0;
	if (again)
		wire_push_again(writer, type, serial, body, size, NULL, 0);
	else
		wire_push(writer, type, serial, body, size, NULL, 0);
	wire_flush(writer, raw.fd);
	wire_writer_free(writer);
	return raw_answer(&raw);
}

void publish(const char *name)
{
	const int64_t shape[] = {1};
	struct tarn_publish_item item = {.name = name};

	if (tarn_store_create(other, TARN_F32, 1, shape, 0, &item.tensor) < 0 ||
		tarn_store_publish(other, &item, 1, NULL, NULL) < 0)
		bail("%s: %s", name, tarn_error_message());
	tarn_tensor_unref(item.tensor);
}

uint64_t now(void)
{
	return table.header->committed + 1;
}

int64_t version_of(const char *name)
{
	struct table_name found;
	int r = table_find(&table, name, strlen(name), &found);

	return r < 0 ? r : (int64_t)found.version;
}

const char *little_room(void)
{
	static char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/conf", test_tmpdir());
	f = fopen(path, "we");
	if (!f ||
		fprintf(f, "[quota %u]\nrequests = %s\n", geteuid(), ROOM) <
			0 ||
		fclose(f) != 0)
		bail("cannot write %s: %m", path);
	return path;
}

void say_half(struct raw *half, const char *socket)
{
	static struct {
		struct wire_header header;
		char body[60000];
	} frame = {.header = {.magic = WIRE_MAGIC,
			   .type = WIRE_LOAD,
			   .flags = WIRE_MORE,
			   .serial = 9,
			   .size = sizeof(frame.body)}};

	raw_open(half, socket);
	if (raw_frame(half, &frame, sizeof(frame), NULL, 0) < 0)
		bail("half a message cannot be said");
}
