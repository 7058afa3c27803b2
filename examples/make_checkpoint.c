/* SPDX-License-Identifier: MIT */
/*
 * make_checkpoint [--size-mb N] [--dtype F32|F16|BF16|F64] FILE
 *
 * Writes a safetensors checkpoint with the names and shapes of GPT-2; without
 * --size-mb those of its 124 million parameters. The values need no model and
 * no memory: element i of the file is a hash of i, so that any of them can be
 * told without reading the others, and the file is made at the speed of the
 * disk.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (2u << 20) /* elements; some MiB a write keep any disk busy */

enum { LAYER_TENSORS = 12, LAYERS_MAX = 200 };

struct tensor {
	char name[48];
	uint64_t rows; /* 0: one dimension */
	uint64_t columns;
};

static struct tensor tensors[4 + LAYERS_MAX * LAYER_TENSORS];
static size_t count;
static uint64_t total; /* elements */

static void add(const char *name, uint64_t rows, uint64_t columns)
{
	struct tensor *t = &tensors[count++];

	snprintf(t->name, sizeof(t->name), "%s", name);
	t->rows = rows;
	t->columns = columns;
	total += (rows ? rows : 1) * columns;
}

static void add_layer(unsigned i, uint64_t w)
{
	static const struct {
		const char *name;
		unsigned rows, columns; /* times the width */
	} parts[LAYER_TENSORS] = {
		{"ln_1.weight", 0, 1},
		{"ln_1.bias", 0, 1},
		{"attn.c_attn.weight", 1, 3},
		{"attn.c_attn.bias", 0, 3},
		{"attn.c_proj.weight", 1, 1},
		{"attn.c_proj.bias", 0, 1},
		{"ln_2.weight", 0, 1},
		{"ln_2.bias", 0, 1},
		{"mlp.c_fc.weight", 1, 4},
		{"mlp.c_fc.bias", 0, 4},
		{"mlp.c_proj.weight", 4, 1},
		{"mlp.c_proj.bias", 0, 1},
	};
	char name[48];

	for (int k = 0; k < LAYER_TENSORS; k++) {
		snprintf(name, sizeof(name), "h.%u.%s", i, parts[k].name);
		add(name, parts[k].rows * w, parts[k].columns * w);
	}
}

/* The widest model of at least a layer per 64 of width that fits into wanted
 * elements, and the vocabulary that fills up what is left of them. */
static void plan(uint64_t wanted)
{
	static const unsigned widths[] = {
		4096, 3072, 2048, 1600, 1280, 1024, 768, 512, 256, 128, 64, 16};
	uint64_t vocabulary = 50257, layers = 12, w = 768, layer, others;

	for (size_t i = 0; wanted && i < sizeof(widths) / sizeof(*widths);
		i++) {
		w = widths[i];
		layer = 12 * w * w + 13 * w;
		others = (50257 + 1024 + 2) * w;
		layers = wanted > others ? (wanted - others) / layer : 0;
		if (layers > LAYERS_MAX)
			layers = LAYERS_MAX;
		if (layers >= w / 64 && layers > 0)
			break;
	}
	layers = layers ? layers : 1;
	if (wanted) {
		others = layers * (12 * w * w + 13 * w) + (1024 + 2) * w;
		vocabulary = wanted > others ? (wanted - others) / w : 1;
	}
	add("wte", vocabulary, w);
	add("wpe", 1024, w);
	for (unsigned i = 0; i < layers; i++)
		add_layer(i, w);
	add("ln_f.weight", 0, w);
	add("ln_f.bias", 0, w);
}

/* The mixer of a good 32-bit hash (lowbias32, Wellons). */
static uint32_t hash(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352d;
	x ^= x >> 15;
	x *= 0x846ca68b;
	return x ^ x >> 16;
}

/* -1/16 to 1/16 in steps of 2^-14, which every type here has exactly but
 * BF16, which is cut. Element 0 of a file is 0. */
static float value(uint64_t i)
{
	uint32_t h = hash((uint32_t)i ^ hash((uint32_t)(i >> 32)));

	return (float)((int32_t)h >> 21) * 0x1p-14f;
}

/* Exact for what value() gives: 11 bits and a sign, never subnormal. */
static uint16_t half(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, 4);
	if (f == 0)
		return 0;
	return (uint16_t)((bits >> 16 & 0x8000) |
			  ((bits & 0x7fffffff) - (112u << 23)) >> 13);
}

static void fill_f32(void *buf, uint64_t first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((float *)buf)[i] = value(first + i);
}

static void fill_f64(void *buf, uint64_t first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((double *)buf)[i] = (double)value(first + i);
}

static void fill_f16(void *buf, uint64_t first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint16_t *)buf)[i] = half(value(first + i));
}

static void fill_bf16(void *buf, uint64_t first, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float f = value(first + i);

		memcpy((char *)buf + 2 * i, (char *)&f + 2, 2);
	}
}

static const struct dtype {
	const char *name;
	unsigned size;
	void (*fill)(void *buf, uint64_t first, size_t n);
} dtypes[] = {
	{"F32", 4, fill_f32},
	{"F16", 2, fill_f16},
	{"BF16", 2, fill_bf16},
	{"F64", 8, fill_f64},
};

/* The length, then the JSON, padded so that the data begins at 64 bytes. */
static int write_header(FILE *f, const struct dtype *dtype)
{
	static char text[256 * (4 + LAYERS_MAX * LAYER_TENSORS)];
	uint64_t offset = 0, size;
	size_t n = 0;

	n += (size_t)sprintf(text, "{\"__metadata__\":{\"format\":\"pt\"}");
	for (size_t i = 0; i < count; i++) {
		const struct tensor *t = &tensors[i];
		uint64_t bytes =
			(t->rows ? t->rows : 1) * t->columns * dtype->size;

		n += (size_t)sprintf(text + n,
			",\"%s\":{\"dtype\":\"%s\","
			"\"shape\":[",
			t->name, dtype->name);
		if (t->rows)
			n += (size_t)sprintf(text + n, "%" PRIu64 ",", t->rows);
		n += (size_t)sprintf(text + n,
			"%" PRIu64 "],\"data_offsets\":"
			"[%" PRIu64 ",%" PRIu64 "]}",
			t->columns, offset, offset + bytes);
		offset += bytes;
	}
	text[n++] = '}';
	while ((n + 8) % 64)
		text[n++] = ' ';
	size = n;
	return fwrite(&size, 8, 1, f) == 1 && fwrite(text, n, 1, f) == 1;
}

static int write_data(FILE *f, const struct dtype *dtype)
{
	void *buf = malloc((size_t)CHUNK * dtype->size);
	uint64_t at = 0;

	while (buf && at < total) {
		size_t n = total - at < CHUNK ? total - at : CHUNK;

		dtype->fill(buf, at, n);
		if (fwrite(buf, dtype->size, n, f) != n)
			break;
		at += n;
	}
	free(buf);
	return at == total;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"size-mb", required_argument, NULL, 's'},
		{"dtype", required_argument, NULL, 'd'},
		{NULL, 0, NULL, 0},
	};
	const struct dtype *dtype = &dtypes[0];
	unsigned long long mb = 0;
	char *end = NULL;
	FILE *f;
	int c, good;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		size_t i = 0, n = sizeof(dtypes) / sizeof(*dtypes);

		if (c == 's')
			mb = strtoull(optarg, &end, 10);
		while (c == 'd' && i < n && strcmp(dtypes[i].name, optarg))
			i++;
		if (c == '?' || i == n ||
			(c == 's' && (*end || !mb || mb > 1000000)))
			goto usage;
		if (c == 'd')
			dtype = &dtypes[i];
	}
	if (optind != argc - 1)
		goto usage;
	plan(mb * 1000000 / dtype->size);
	f = fopen(argv[optind], "wbe");
	good = f && write_header(f, dtype) && write_data(f, dtype);
	if (f && fclose(f))
		good = 0;
	if (!good) {
		fprintf(stderr, "make_checkpoint: %s: %m\n", argv[optind]);
		if (f)
			remove(argv[optind]);
		return 1;
	}
	printf("%s: %zu tensors, %" PRIu64 " bytes of %s\n", argv[optind],
		count, total * dtype->size, dtype->name);
	return 0;
usage:
	fprintf(stderr, "usage: make_checkpoint [--size-mb 1..1000000] "
			"[--dtype F32|F16|BF16|F64] FILE\n");
	return 2;
}
