/* SPDX-License-Identifier: MIT */
/*
 * The section of a pool: who owns it, who may use it, and how it is made.
 *
 * Owner, group and mode mean what they mean for a file, since users know that:
 * r allows to look names up and map, w to load, publish and remove.
 */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/overflow_uid.h"
#include "daemon/config/conf_internal.h"
#include "daemon/config/options.h"
#include "daemon/config/settings.h"

const char config_pool_keys[] =
	"size, pages, segment-size, node, register, owner, group, mode";

#define GID_UNSAID UINT32_MAX
#define MODE_DEFAULT 0600 /* others see it only on request */

/* ---- values ------------------------------------------------------------ */

static int number(const char *text, uint32_t *ret)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || n >= UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)n;
	return 0;
}

int config_user(const char *name, uint32_t *ret)
{
	const struct passwd *user;

	if (number(name, ret) == 0)
		return 0;
	user = getpwnam(name);
	if (!user)
		return tarn_fail(EINVAL,
			"there is no user '%s'; a name or a number is wanted",
			name);
	*ret = user->pw_uid;
	return 0;
}

static int config_group(const char *name, uint32_t *ret)
{
	const struct group *group;

	if (number(name, ret) == 0)
		return 0;
	group = getgrnam(name);
	if (!group)
		return tarn_fail(EINVAL,
			"there is no group '%s'; a name or a number is wanted",
			name);
	*ret = group->gr_gid;
	return 0;
}

static int take_size(struct pool_spec *pool, const char *value)
{
	if (setting_size(value, &pool->limit) || pool->limit < SEGMENT_UNIT)
		return tarn_fail(EINVAL,
			"size must be 2M at least, with K, M, G or T: %s",
			value);
	return 0;
}

static int take_pages(struct pool_spec *pool, const char *value)
{
	static const enum pool_pages all[] = {
		PAGES_AUTO, PAGES_4K, PAGES_2M, PAGES_1G, PAGES_THP};

	/* Sizes are written in capitals elsewhere. */
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		pool->pages = (uint8_t)all[i];
		if (strcasecmp(pool_pages_name(pool), value) == 0)
			return 0;
	}
	return tarn_fail(
		EINVAL, "pages must be auto, 4k, 2m, 1g or thp, not %s", value);
}

/* What the option was called before. */
static int take_page_size(struct pool_spec *pool, const char *value)
{
	(void)pool;
	return tarn_fail(EINVAL,
		"page-size is called pages now: write pages = %s, or auto, 4k, "
		"2m, 1g or thp",
		value);
}

static int take_segment_size(struct pool_spec *pool, const char *value)
{
	struct options o = {0};
	int r = setting_take(&o, "segment-size", value);

	pool->segment_max = o.segment_max;
	return r;
}

static int take_node(struct pool_spec *pool, const char *value)
{
	return setting_placement(value, &pool->placement);
}

static int take_register(struct pool_spec *pool, const char *value)
{
	bool registers = false;
	int r = setting_register(value, &registers);

	pool->flags = registers ? POOL_REGISTER : 0;
	return r;
}

/* The keeper refuses every client of the overflow uid, so that no process could
 * use a pool that belongs to it. */
static int take_owner(struct pool_spec *pool, const char *value)
{
	int r = config_user(value, &pool->uid);

	if (r == 0 && pool->uid == overflow_uid() && pool->uid != geteuid())
		return tarn_fail(EINVAL,
			"owner must not be %s: uid %u is the overflow uid, "
			"which stands for all users of other user namespaces "
			"and is refused",
			value, pool->uid);
	return r;
}

static int take_group(struct pool_spec *pool, const char *value)
{
	return config_group(value, &pool->gid);
}

/* A user that could write but not read could not even find its own names. */
static int take_mode(struct pool_spec *pool, const char *value)
{
	uint16_t mode;

	if (setting_mode(value, &mode) || ((mode & 0222) << 1) & ~mode)
		return tarn_fail(EINVAL,
			"mode must be octal, of r (4) and w (2, with r), like "
			"0640: %s",
			value);
	pool->mode = mode;
	return 0;
}

int config_pool_key(struct pool_spec *pool, const char *key, const char *value)
{
	static const struct {
		const char *key;
		int (*take)(struct pool_spec *pool, const char *value);
	} keys[] = {
		{"size", take_size},
		{"pages", take_pages},
		{"page-size", take_page_size},
		{"segment-size", take_segment_size},
		{"node", take_node},
		{"register", take_register},
		{"owner", take_owner},
		{"group", take_group},
		{"mode", take_mode},
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i].key, key) == 0)
			return keys[i].take(pool, value);
	return -ENOENT;
}

/* ---- a section --------------------------------------------------------- */

static int check_name(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '_' &&
			name[i] != '-' && name[i] != '.')
			n = 0;
	if (n == 0 || n > WIRE_POOL_MAX)
		return tarn_fail(EINVAL,
			"a pool's name is of 1 to %u letters, digits, '_', '-' "
			"and '.', not '%s'",
			WIRE_POOL_MAX, name);
	return 0;
}

int config_pool_begin(struct pool_spec *pool, const char *name)
{
	int r = check_name(name);

	if (r < 0)
		return r;
	*pool = (struct pool_spec) {
		.pages = PAGES_AUTO,
		.mode = MODE_DEFAULT,
		.uid = geteuid(),
		.gid = GID_UNSAID,
		.placement = {.policy = PLACE_UNSAID},
		.flags = FLAGS_UNSAID,
	};
	memcpy(pool->name, name, strlen(name));
	return 0;
}

/* The group of the owner, as a file that the owner creates would have. */
static void choose_group(struct pool_spec *pool)
{
	const struct passwd *user = getpwuid(pool->uid);

	pool->gid = user ? user->pw_gid : getegid();
}

int config_pool_end(struct pool_spec *pool)
{
	uint64_t page = 1ull << pool_page_shift(pool);

	if (pool->gid == GID_UNSAID)
		choose_group(pool);
	if (pool->segment_max % page || pool->limit % page)
		return tarn_fail(EINVAL,
			"size and segment-size of the pool %s must be "
			"multiples of its pages",
			pool->name);
	return 0;
}
