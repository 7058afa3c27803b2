/* SPDX-License-Identifier: MIT */
#include "tests/kit/copy_read.h"

#include "tests/kit/cold.h"

const struct sample kit_read_few[KIT_FEW] = {
	{"U8", "[1400000]", "", "U8", "", 100, 100, false},
	{"U8", "[1400000]", "", "U8", "", 8, 3, false},
	{"F32", "[24, 32768]", "[:, 100:164]", "F32", "", 80, 0, false},
	{"F32", "[500, 768]", ".transpose(0, 1)", "F32", "", 8, 0, false},
};

static struct tarn_layout layout_of(const char *dtype, const char *shape)
{
	struct tarn_layout l;
	char text[200];

	snprintf(text, sizeof(text), "%s%s", dtype, shape);
	if (tarn_layout_parse(text, &l) < 0)
		bail("%s: %s", text, tarn_error_message());
	return l;
}

/* Takes the storage over. */
static tarn_tensor *tensor_of(tarn_storage *storage, struct tarn_layout *l,
	uint64_t base, const char *view)
{
	tarn_tensor *whole, *ret;

	if (tarn_tensor_new(storage, base, l, &whole) < 0 ||
		tarn_tensor_eval(whole, view, &ret) < 0)
		bail("%s: %s", view, tarn_error_message());
	tarn_storage_unref(storage);
	tarn_tensor_unref(whole);
	return ret;
}

tarn_tensor *kit_read_in_file(int fd, const struct sample *s)
{
	struct tarn_layout l = layout_of(s->dtype, s->shape);
	uint64_t skipped = s->offset > 0;
	tarn_storage *storage;

	if (tarn_storage_from_fd(fd, skipped, SIZE - skipped, &storage) < 0)
		bail("%s", tarn_error_message());
	return tensor_of(storage, &l, s->offset - skipped, s->view);
}

static tarn_tensor *in_memory(const struct sample *s)
{
	struct tarn_layout l = layout_of(s->dtype, s->shape);
	tarn_storage *storage;

	if (tarn_storage_borrow((void *)text(), SIZE, 0, NULL, NULL, &storage) <
		0)
		bail("%s", tarn_error_message());
	return tensor_of(storage, &l, s->offset, s->view);
}

struct target kit_read_target(const struct sample *s, const tarn_tensor *src)
{
	struct tarn_layout from = *tarn_tensor_layout(src), to;
	enum tarn_dtype dtype;
	tarn_storage *storage;
	struct target p;

	if (tarn_dtype_from_name(s->to_dtype, &dtype) < 0 ||
		tarn_layout_contiguous(dtype, from.ndim, from.shape, &to) < 0)
		bail("%s", tarn_error_message());
	p.size = 2 * MARGIN + s->shift + (size_t)tarn_layout_nbytes(&to);
	p.raw = aligned_alloc(4096, (p.size + 4095) / 4096 * 4096);
	if (!p.raw)
		bail("no memory");
	memset(p.raw, CANARY, p.size);
	if (tarn_storage_borrow(p.raw + MARGIN + s->shift,
		    (uint64_t)tarn_layout_nbytes(&to), TARN_BORROW_WRITABLE,
		    NULL, NULL, &storage) < 0)
		bail("%s", tarn_error_message());
	p.tensor = tensor_of(storage, &to, 0, s->to_view);
	return p;
}

void kit_read_drop(struct target *p)
{
	tarn_tensor_unref(p->tensor);
	free(p->raw);
}

static const double scales[] = {0.25, 0.5, 2}, biases[] = {-1, 0, 1};

struct tarn_copy_options kit_read_options(const struct sample *s)
{
	struct tarn_copy_options o = {0};

	if (s->scaled) {
		o.scale = scales;
		o.bias = biases;
		o.channels = 3;
		o.channel_dim = 1;
	}
	return o;
}

static void warm(int fd)
{
	static char buf[SIZE];

	if (pread(fd, buf, sizeof(buf), 0) != sizeof(buf))
		bail("pread: %m");
}

bool kit_read_copy(int fd, const struct sample *s, const struct way *way,
	const struct target *wanted, struct tarn_copy_info *ret_info)
{
	tarn_tensor *src = kit_read_in_file(fd, s);
	struct target seen = kit_read_target(s, src);
	struct tarn_copy_options o = kit_read_options(s);
	bool good;
	int r;

	if (way->cache == IS_EVICTED)
		cold_try(fd);
	else if (way->cache == IS_WARM)
		warm(fd);
	o.engine = way->engine;
	o.io_mode = way->io_mode;
	r = tarn_copy(seen.tensor, src, &o, ret_info);
	good = r == 0 && (!wanted || !memcmp(wanted->raw, seen.raw, seen.size));
	if (!good)
		diag("%s%s%s at %llu: result %d %s", s->dtype, s->shape,
			s->view, (unsigned long long)s->offset, r,
			r < 0 ? tarn_error_message() : "");
	kit_read_drop(&seen);
	tarn_tensor_unref(src);
	return good;
}

struct target kit_read_wanted(const struct sample *s)
{
	tarn_tensor *same = in_memory(s);
	struct target wanted = kit_read_target(s, same);
	struct tarn_copy_options o = kit_read_options(s);

	if (tarn_copy(wanted.tensor, same, &o, NULL) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(same);
	return wanted;
}
