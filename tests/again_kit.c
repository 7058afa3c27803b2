/* SPDX-License-Identifier: MIT */
/* See again_kit.h. */
#include "tests/again_kit.h"

#include <string.h>

#include "tests/tap.h"

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
