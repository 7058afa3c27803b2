/* SPDX-License-Identifier: MIT */
/*
 * Reading tarnd.conf.
 *
 * libinih parses the lines. It does not report two things, which the function
 * that supplies the lines sees: the line's number, for the errors, and the
 * beginning of a section, since a section without keys has a meaning too.
 *
 * The file decides which users see which memory, so a file that another user
 * may write is refused.
 */
#include "daemon/config/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/config/conf_internal.h"
#include "daemon/config/settings.h"

struct reading {
	FILE *file;
	struct options *options;
	struct config *config;
	unsigned line;
	/* Where we are: one of them is set, or none before the first. */
	bool in_daemon;
	struct pool_spec *pool;
	struct quota *quota;
	unsigned pool_line;
	char seen[512]; /* " key key": those of this section */
	int error;      /* the first; its sentence is the thread's */
	char why[1024];
};

/* Only the first error is reported. */
static int fail_at(struct reading *r, unsigned line)
{
	if (!r->error) {
		r->error = -EINVAL;
		snprintf(r->why, sizeof(r->why), "%s:%u: %s",
			r->options->config, line, tarn_fail_message());
	}
	return 0;
}

/* ---- sections ---------------------------------------------------------- */

static void end_section(struct reading *r)
{
	if (r->pool && config_pool_end(r->pool) < 0)
		fail_at(r, r->pool_line);
	r->in_daemon = false;
	r->pool = NULL;
	r->quota = NULL;
	r->seen[0] = '\0';
}

static int begin_pool(struct reading *r, const char *name)
{
	struct config *config = r->config;
	struct pool_spec *pool = &config->pools[config->n_pools];

	for (uint32_t i = 0; i < config->n_pools; i++)
		if (strcmp(config->pools[i].name, name) == 0)
			return tarn_fail(
				EINVAL, "the pool %s is there already", name);
	if (config->n_pools == POOLS_MAX)
		return tarn_fail(
			EINVAL, "more than %u pools with names", POOLS_MAX);
	if (config_pool_begin(pool, name) < 0)
		return -EINVAL;
	config->n_pools++;
	r->pool = pool;
	r->pool_line = r->line;
	return 0;
}

static int begin_quota(struct reading *r, const char *name)
{
	struct config *config = r->config;
	struct quota_user *user = &config->users[config->n_users];
	uint32_t uid;

	if (!*name) {
		r->quota = &config->common;
		return 0;
	}
	if (config_user(name, &uid) < 0)
		return -EINVAL;
	if (config->n_users == QUOTA_USERS_MAX)
		return tarn_fail(EINVAL,
			"more than %u users with quotas of their own",
			QUOTA_USERS_MAX);
	*user = (struct quota_user) {.uid = uid};
	memset(&user->quota, 0xff, sizeof(user->quota));
	config->n_users++;
	r->quota = &user->quota;
	return 0;
}

static int begin_section(struct reading *r, char *head)
{
	const char *kind = strtok(head, " \t");
	const char *name = strtok(NULL, " \t");

	end_section(r);
	if (kind && !strtok(NULL, " \t")) {
		if (!name && strcmp(kind, "daemon") == 0) {
			r->in_daemon = true;
			return 0;
		}
		if (name && strcmp(kind, "pool") == 0)
			return begin_pool(r, name);
		if (strcmp(kind, "quota") == 0)
			return begin_quota(r, name ? name : "");
	}
	return tarn_fail(EINVAL,
		"no such section; there are [daemon], [pool NAME], [quota] and "
		"[quota USER]");
}

/* ---- keys -------------------------------------------------------------- */

static int daemon_key(struct reading *r, const char *key, const char *value)
{
	unsigned bit = setting_bit(key);
	struct options *o = r->options, spare = {0};
	int e;

	if (!bit)
		return -ENOENT;
	/* A setting that the command line overrides is checked, too. */
	e = setting_take(o->given & bit ? &spare : o, key, value);
	/* The one that is kept as it is: libinih's line does not last. */
	if (e == 0 && o->socket == value) {
		o->socket = strdup(value);
		if (!o->socket)
			e = tarn_fail(ENOMEM, "out of memory");
	}
	return e;
}

static int unknown_key(const struct reading *r, const char *key)
{
	char all[128] = "";
	const char *name;

	for (unsigned i = 0; (name = setting_name(i)); i++) {
		strcat(all, i ? ", " : "");
		strcat(all, name);
	}
	return tarn_fail(EINVAL, "there is no key '%s' here, but: %s", key,
		r->pool    ? config_pool_keys
		: r->quota ? config_quota_keys
			   : all);
}

static int check_twice(struct reading *r, const char *key)
{
	char word[64];

	snprintf(word, sizeof(word), " %s ", key);
	if (strstr(r->seen, word))
		return tarn_fail(EINVAL, "%s is said twice", key);
	if (strlen(r->seen) + strlen(word) < sizeof(r->seen))
		strcat(r->seen, word);
	return 0;
}

static int on_key(
	void *arg, const char *section, const char *key, const char *value)
{
	struct reading *r = arg;
	int e = 0;

	(void)section;
	if (r->error)
		return 0;
	if (r->in_daemon)
		e = daemon_key(r, key, value);
	else if (r->pool)
		e = config_pool_key(r->pool, key, value);
	else if (r->quota)
		e = config_quota_key(r->quota, key, value);
	else
		e = tarn_fail(EINVAL,
			"'%s' stands before the first section, such as "
			"[daemon]",
			key);
	if (e == -ENOENT)
		e = unknown_key(r, key);
	if (e == 0)
		e = check_twice(r, key);
	return e < 0 ? fail_at(r, r->line) : 1;
}

/* ---- lines ------------------------------------------------------------- */

static int look_at(struct reading *r, const char *line)
{
	size_t n = strcspn(line, "\r\n");
	char head[256];
	const char *end;

	if (!line[n] && !feof(r->file))
		return tarn_fail(EINVAL, "a line of more than %zu bytes", n);
	if (strspn(line, " \t") == n || *line == ';' || *line == '#')
		return 0;
	/* libinih would take it for more of the value above. */
	if (*line == ' ' || *line == '\t')
		return tarn_fail(EINVAL, "a line must not begin with a blank");
	if (*line != '[')
		return strcspn(line, "=:") < n
			       ? 0
			       : tarn_fail(EINVAL, "neither [section] "
						   "nor key = value");
	end = strchr(line, ']');
	if (!end || (size_t)(end - line) >= sizeof(head))
		return tarn_fail(EINVAL, "a section without its ]");
	memcpy(head, line + 1, (size_t)(end - line) - 1);
	head[end - line - 1] = '\0';
	return begin_section(r, head);
}

/* fgets, for libinih; after an error there is nothing more to read. */
static char *next_line(char *line, int room, void *arg)
{
	struct reading *r = arg;

	if (r->error || !fgets(line, room, r->file))
		return NULL;
	r->line++;
	if (look_at(r, line) < 0) {
		fail_at(r, r->line);
		return NULL;
	}
	return line;
}

/* ---- the file ---------------------------------------------------------- */

static int open_file(const char *path, FILE **ret)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return tarn_fail(errno, "cannot read the configuration %s: %s",
			path, tarn_errno_text(errno));
	if (!S_ISREG(st.st_mode))
		return tarn_fail(
			EINVAL, "the configuration %s is no file", path);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 022)
		return tarn_fail(EPERM,
			"the configuration %s can be written by others than "
			"uid %u and root (owner %u, mode %04o); chown and "
			"chmod it",
			path, geteuid(), st.st_uid, st.st_mode & 07777u);
	*ret = fdopen(fd, "re");
	if (!*ret)
		return tarn_fail(ENOMEM, "out of memory");
	fd = -1;
	return 0;
}

static int read_all(struct reading *r)
{
	int line = ini_parse_stream(next_line, r, on_key, r);

	end_section(r);
	if (!r->error && ferror(r->file)) {
		tarn_fail(EIO, "it cannot be read to its end");
		fail_at(r, r->line + 1);
	}
	if (!r->error && line) {
		tarn_fail(EINVAL, "neither [section] nor key = value");
		fail_at(r, line > 0 ? (unsigned)line : r->line);
	}
	return r->error ? tarn_fail_verbatim(-r->error, r->why) : 0;
}

/* The [daemon] section may stand behind the pools. One page is the least that
 * a segment can be. */
static void choose_defaults(struct reading *r)
{
	for (uint32_t i = 0; i < r->config->n_pools; i++) {
		struct pool_spec *pool = &r->config->pools[i];

		if (!pool->segment_max)
			pool->segment_max = MAX(r->options->segment_max,
				1ull << pool_page_shift(pool));
		if (pool->placement.policy == PLACE_UNSAID)
			pool->placement = r->options->placement;
		if (pool->flags == FLAGS_UNSAID)
			pool->flags = r->options->registers ? POOL_REGISTER : 0;
	}
}

int config_read(struct options *options, struct config *ret)
{
	struct reading r = {.options = options, .config = ret};
	int e;

	ret->n_pools = ret->n_users = 0;
	memset(&ret->common, 0xff, sizeof(ret->common));
	if (!options->config)
		return 0;
	e = open_file(options->config, &r.file);
	if (e < 0)
		return e;
	e = read_all(&r);
	fclose(r.file);
	choose_defaults(&r);
	return e;
}
