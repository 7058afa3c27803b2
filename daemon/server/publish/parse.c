/* SPDX-License-Identifier: MIT */
/*
 * Parses a request to publish: checked once, in private memory.
 *
 * The server calls on a descriptor only what cannot block: F_GETFL, then
 * F_GET_SEALS, which succeeds only for memory, and then its size.
 */
#include "daemon/server/publish/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"

/* Where reading is. */
struct cursor {
	const unsigned char *at, *end;
};

/* The next size bytes, padded to 8; NULL: there are not so many. */
static const void *take(struct cursor *c, uint64_t size)
{
	const unsigned char *at = c->at;

	/* No size is near the end of numbers: each was compared with a limit
	 * or is that of a struct. */
	if ((uint64_t)(c->end - c->at) < ((size + 7) & ~7ull))
		return NULL;
	c->at += (size + 7) & ~7ull;
	return at;
}

static int check_head(const struct msg_publish *head)
{
	if (head->n_sources > PUBLISH_SOURCES_MAX ||
		head->n_names > LOAD_NAMES_MAX ||
		head->prefix_size > TARN_NAME_MAX ||
		head->flags & ~(PUBLISH_REPLACE | PUBLISH_NEW | PLACE_MASK))
		return tarn_fail(EINVAL,
			"publish: %u sources, %u names, a prefix of %u bytes, "
			"flags %#x: beyond the limits",
			head->n_sources, head->n_names, head->prefix_size,
			head->flags);
	if (!(head->flags & PUBLISH_REPLACE) != !head->prefix_size)
		return tarn_fail(EINVAL,
			"publish: a prefix of %u bytes, and flags %#x: a "
			"prefix is what is replaced, and cannot be empty",
			head->prefix_size, head->flags);
	if (!head->n_names && (head->n_sources || !head->prefix_size))
		return tarn_fail(EINVAL, "publish: no name is given");
	return 0;
}

/* ---- sources --------------------------------------------------------- */

static int check_memory(const struct source *s, uint32_t i)
{
	int flags = fcntl(s->fd, F_GETFL);

	if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY)
		return tarn_fail(EBADF,
			"publish: the descriptor of source %u cannot be read",
			i);
	/* Only files in memory have seals: what follows cannot block. */
	if (fcntl(s->fd, F_GET_SEALS) < 0)
		return tarn_fail(EBADF, "publish: source %u is no memfd", i);
	return 0;
}

static int check_patch_fd(struct source *s, uint32_t i)
{
	int r = check_memory(s, i);

	return r < 0 ? r : publish_check_patch(s, i);
}

static int check_fd(const struct source *s, uint32_t i)
{
	struct stat st;
	int r = check_memory(s, i);

	if (r < 0)
		return r;
	if (fstat(s->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		(uint64_t)st.st_size < s->size)
		return tarn_fail(EINVAL,
			"publish: the memfd of source %u has %lld bytes, not "
			"%llu",
			i, (long long)st.st_size, (unsigned long long)s->size);
	return 0;
}

static int parse_source(struct publish *p, const struct msg_source *m,
	uint32_t i, int *n_fds, uint64_t *sum)
{
	struct source *s = &p->sources[i];

	*s = (struct source) {.kind = m->kind,
		.publish = p,
		.fd = -1,
		.size = m->size,
		.index = m->index,
		.generation = m->generation};
	if (m->size > INT64_MAX / 8)
		return tarn_fail(EOVERFLOW, "publish: source %u of %llu bytes",
			i, (unsigned long long)m->size);
	switch (m->kind) {
	case SOURCE_BYTES:
		if (add_u64(*sum, m->size, sum) || *sum > PUBLISH_INLINE_MAX)
			return tarn_fail(EINVAL,
				"publish: more than %u bytes in a message; "
				"send a memfd",
				PUBLISH_INLINE_MAX);
		return 0;
	case SOURCE_EXISTING:
		return 0;
	case SOURCE_COPY:
	case SOURCE_ADOPT:
	case SOURCE_MUTABLE:
	case SOURCE_CHANNEL:
		s->fd = wire_take_fd(&p->message, (*n_fds)++);
		return check_fd(s, i);
	case SOURCE_PATCH:
		s->fd = wire_take_fd(&p->message, (*n_fds)++);
		return check_patch_fd(s, i);
	case SOURCE_DEVICE:
		s->fd = wire_take_fd(&p->message, (*n_fds)++);
		return publish_check_device(s, i);
	default:
		return tarn_fail(
			EINVAL, "publish: source %u is of kind %u", i, m->kind);
	}
}

static int parse_sources(
	struct publish *p, uint32_t n, const struct msg_source *messages)
{
	uint64_t sum = 0;
	int n_fds = 0, r = 0;

	p->sources = calloc(n + 1ul, sizeof(*p->sources));
	if (!p->sources)
		return tarn_fail(ENOMEM, "out of memory for %u sources", n);
	for (uint32_t i = 0; i < n; i++, p->n_sources++) {
		p->sources[i].fd = -1;
		r = r < 0 ? r : parse_source(p, &messages[i], i, &n_fds, &sum);
	}
	if (r == 0 && n_fds != p->message.n_fds)
		r = tarn_fail(EINVAL,
			"publish: %d descriptors came for %d sources",
			p->message.n_fds, n_fds);
	return r;
}

/* Of its kind; 0, where that has none. */
static uint64_t bytes_of(const struct source *s)
{
	if (s->kind == SOURCE_DEVICE)
		return sizeof(struct msg_device);
	return s->kind == SOURCE_BYTES ? s->size : 0;
}

static int parse_bytes(struct publish *p, struct cursor *c)
{
	for (uint32_t i = 0; i < p->n_sources; i++) {
		struct source *s = &p->sources[i];
		const void *bytes = take(c, bytes_of(s));
		int r = 0;

		if (!bytes)
			return tarn_fail(EPROTO,
				"publish: the message ends in source %u", i);
		if (s->kind == SOURCE_BYTES)
			s->bytes = bytes;
		if (s->kind == SOURCE_DEVICE)
			r = publish_read_device(s, bytes, i);
		if (r < 0)
			return r;
	}
	if (c->at != c->end)
		return tarn_fail(EPROTO, "publish: %zu bytes are left over",
			(size_t)(c->end - c->at));
	return 0;
}

/* ---- names ----------------------------------------------------------- */

/* A storage without a name would have no holder at once. */
static int check_used(const struct publish *p)
{
	bool used[PUBLISH_SOURCES_MAX] = {false};
	const unsigned char *at = p->names.at;
	struct named named;
	int r = 0;

	for (uint32_t i = 0; i < p->names.n && r == 0; i++) {
		r = name_next(&p->names, &at, &named);
		if (r == 0)
			used[named.source] = true;
	}
	for (uint32_t i = 0; i < p->n_sources && r == 0; i++)
		if (!used[i])
			r = tarn_fail(EINVAL,
				"publish: no name leads to source %u", i);
	return r;
}

/* Alone, under one name, all of it as bytes. */
static int check_channel(const struct publish *p)
{
	const unsigned char *at = p->names.at;
	const struct source *s = p->sources;
	struct named named;
	uint32_t n = 0;
	int r;

	for (uint32_t i = 0; i < p->n_sources; i++)
		n += s[i].kind == SOURCE_CHANNEL;
	if (!n)
		return 0;
	if (p->n_sources != 1 || p->names.n != 1 || p->flags & PUBLISH_REPLACE)
		return tarn_fail(EINVAL,
			"publish: a channel comes alone under one name, not "
			"with %u sources, %u names, flags %#x",
			p->n_sources, p->names.n, p->flags);
	r = name_next(&p->names, &at, &named);
	if (r < 0)
		return r;
	if (named.base || named.layout.dtype != TARN_U8 ||
		named.layout.ndim != 1 || named.layout.offset ||
		named.layout.stride[0] != 1 ||
		(uint64_t)named.layout.shape[0] != s->size)
		return tarn_fail(EINVAL,
			"publish: the layout of a channel is that of its %llu "
			"bytes",
			(unsigned long long)s->size);
	return 0;
}

static int parse_names(struct publish *p, uint32_t n, struct cursor *c)
{
	uint64_t sizes[PUBLISH_SOURCES_MAX] = {0};
	int r;

	for (uint32_t i = 0; i < p->n_sources; i++)
		sizes[i] = p->sources[i].size;
	p->names = (struct name_list) {
		.verb = "publish", .at = c->at, .end = c->end, .n = n};
	r = names_check(&p->names, sizes, p->n_sources, &c->at);
	if (r == 0)
		r = check_used(p);
	return r < 0 ? r : check_channel(p);
}

static int check_prefix(const struct publish *p)
{
	int r = p->prefix_size ? name_check(p->prefix, p->prefix_size) : 0;

	return r < 0 ? tarn_fail_prefix(r, "publish: the prefix: ") : 0;
}

int publish_parse(struct publish *p)
{
	const struct wire_message *m = &p->message;
	const struct msg_publish *head = (const struct msg_publish *)m->body;
	struct cursor c = {m->body + sizeof(*head), m->body + m->size};
	const struct msg_source *sources;
	int r = check_head(head);

	if (r < 0)
		return r;
	sources = take(&c, head->n_sources * sizeof(*sources));
	if (!sources)
		return tarn_fail(
			EPROTO, "publish: the message ends in a source");
	p->flags = head->flags;
	p->ttl_ns = head->ttl_ns;
	p->prefix_size = head->prefix_size;
	r = parse_sources(p, head->n_sources, sources);
	if (r == 0)
		r = parse_names(p, head->n_names, &c);
	if (r == 0 && !(p->prefix = take(&c, p->prefix_size)))
		r = tarn_fail(EPROTO, "publish: the message ends in a prefix");
	if (r == 0)
		r = check_prefix(p);
	return r < 0 ? r : parse_bytes(p, &c);
}
