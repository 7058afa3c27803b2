/* SPDX-License-Identifier: MIT */
/*
 * Building a load request.
 *
 * The daemon is trusted with bytes, not with rights. It gets the file opened
 * for reading only, whatever the caller's descriptor permits, and once more for
 * direct reads where the file system supports them.
 */
#include "lib/store/load_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/file/file.h"
#include "lib/io/io_mode.h"
#include "lib/store/message_body.h"
#include "shm/table.h"

#define LABEL_MAX 1024u

static_assert(FILE_FRONT_MAX <= LOAD_HEADER_MAX);

/* ---- the message ----------------------------------------------------- */

static int put_name(struct message_body *b, const char *prefix,
	const struct tarn_file_entry *tensor, uint64_t data_offset)
{
	char name[TARN_NAME_MAX + 1];
	struct tarn_layout layout;
	int r, n;

	r = tarn_file_entry_layout(tensor, &layout);
	if (r < 0)
		return tarn_fail_prefix(r, "publish '%.200s': ", tensor->name);
	n = snprintf(name, sizeof(name), "%s/%s", prefix, tensor->name);
	if (n > TARN_NAME_MAX)
		return tarn_fail(ENAMETOOLONG,
			"publish '%.60s.../%.60s': a name of %d bytes, %d are "
			"the most",
			prefix, tensor->name, n, TARN_NAME_MAX);
	return message_body_put_name(b, name, (size_t)n, 0,
		tensor->file_offset - data_offset, &layout);
}

static int put_names(struct message_body *b, const tarn_file *file,
	const char *prefix, uint64_t data_offset)
{
	size_t n = tarn_file_count(file);
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = put_name(b, prefix, tarn_file_at(file, i), data_offset);
	return r;
}

static int write_message(const tarn_file *file, const char *prefix, bool fresh,
	uint32_t place, struct load_request *request)
{
	const char *label = tarn_file_path(file);
	struct msg_load head = {.label_size = MIN(strlen(label), LABEL_MAX),
		.flags = (fresh ? LOAD_FRESH : 0) | place,
		.seen = file->version};
	struct msg_range range = {0};
	struct message_body b = {0};
	int r = 0;

	tarn_file_data_range(file, &range.file_offset, &range.size);
	if (prefix && tarn_file_count(file) > LOAD_NAMES_MAX)
		return tarn_fail(E2BIG,
			"%.200s: it has %zu tensors, %u are the most that can "
			"be published at once",
			label, tarn_file_count(file), LOAD_NAMES_MAX);
	/* Empty tensors and empty files have names, but no range to read. */
	head.n_ranges = range.size ? 1 : 0;
	head.n_names = prefix ? (uint32_t)tarn_file_count(file) : 0;
	message_body_put(&b, &head, sizeof(head));
	message_body_put(&b, &range, head.n_ranges * sizeof(range));
	if (prefix)
		r = put_names(&b, file, prefix, range.file_offset);
	message_body_put(&b, label, head.label_size);
	if (r >= 0 && b.failed)
		r = tarn_fail(
			ENOMEM, "load: no memory for %u names", head.n_names);
	if (r >= 0 && b.size > WIRE_MESSAGE_MAX)
		r = tarn_fail(E2BIG,
			"%.200s: its names fill a message of %zu bytes, %u are "
			"the most",
			label, b.size, WIRE_MESSAGE_MAX);
	if (r < 0) {
		free(b.p);
		return r;
	}
	request->body = b.p;
	request->size = b.size;
	request->total = range.size;
	return 0;
}

/* ---- the descriptors ------------------------------------------------- */

static int reopen(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
}

static int open_buffered(const tarn_file *file, int *ret)
{
	int fd = tarn_file_fd(file), flags = fcntl(fd, F_GETFL), copy;

	if (flags < 0)
		return tarn_fail(errno, "%.200s: %s", tarn_file_path(file),
			tarn_errno_text(errno));
	if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_DIRECT)) {
		copy = fd_dup(fd);
	} else {
		copy = reopen(fd, 0);
		copy = copy < 0 ? -errno : copy;
	}
	if (copy < 0)
		return tarn_fail(-copy,
			"%.200s: opening it for the daemon to read: %s",
			tarn_file_path(file), tarn_errno_text(copy));
	*ret = copy;
	return 0;
}

int load_request_make(const tarn_file *file, const char *name, bool fresh,
	uint32_t place, struct load_request *ret)
{
	struct load_request request = {.fds = {-1, -1}};
	int r;

	r = write_message(file, name, fresh, place, &request);
	if (r >= 0)
		r = open_buffered(file, &request.fds[0]);
	if (r < 0) {
		load_request_free(&request);
		return r;
	}
	/* Direct reads are better only on a local disk. The daemon does not
	 * query the file system: it might not answer. */
	if (io_fs_of(request.fds[0]) == IO_FS_LOCAL)
		request.fds[1] = reopen(tarn_file_fd(file), O_DIRECT);
	request.n_fds = request.fds[1] < 0 ? 1 : 2;
	*ret = request;
	return 0;
}

void load_request_free(struct load_request *request)
{
	free(request->body);
	fd_close(request->fds[0]);
	fd_close(request->fds[1]);
	*request = (struct load_request) {.fds = {-1, -1}};
}
