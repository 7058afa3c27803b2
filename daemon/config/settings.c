/* SPDX-License-Identifier: MIT */
/*
 * The settings that both the command line and the file can set.
 *
 * They are a table of names and functions, so that both ways lead through the
 * same check, and a new setting is known to both.
 */
#include "daemon/config/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/nodes.h"
#include "daemon/config/options.h"

int setting_size(const char *text, uint64_t *ret)
{
	static const char units[] = "KMGT";
	unsigned long long n;
	const char *unit;
	char *end;
	int shift = 0;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || end == text || *text < '0' || *text > '9')
		return -EINVAL;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1])
			return -EINVAL;
		shift = 10 * (int)(unit - units + 1);
	}
	if (n > UINT64_MAX >> shift)
		return -EINVAL;
	*ret = (uint64_t)n << shift;
	return 0;
}

int setting_mode(const char *text, uint16_t *ret)
{
	unsigned mode = 0;

	if (!*text || strlen(text) > 4)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '7')
			return -EINVAL;
		mode = mode * 8 + (unsigned)(*text - '0');
	}
	if (mode & ~0666u)
		return -EINVAL;
	*ret = (uint16_t)mode;
	return 0;
}

/* ---- one function a setting -------------------------------------------- */

static int take_socket(struct options *o, const char *value)
{
	if (!*value)
		return tarn_fail(EINVAL, "socket: the path is empty");
	o->socket = value;
	return 0;
}

static int take_budget(struct options *o, const char *value)
{
	if (setting_size(value, &o->budget) || !o->budget)
		return tarn_fail(EINVAL,
			"budget is no size: %s; 64G is one, with K, M, G or T",
			value);
	return 0;
}

static int take_segment_size(struct options *o, const char *value)
{
	if (setting_size(value, &o->segment_max) ||
		o->segment_max < SEGMENT_UNIT ||
		o->segment_max > SEGMENT_LIMIT || o->segment_max % SEGMENT_UNIT)
		return tarn_fail(EINVAL,
			"segment-size must be a multiple of 2M up to 1G: %s",
			value);
	return 0;
}

int setting_placement(const char *text, struct placement *ret)
{
	static const char *const words[] = {[PLACE_AUTO] = "auto",
		[PLACE_LOCAL] = "local",
		[PLACE_INTERLEAVE] = "interleave"};
	uint64_t node;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(words[i], text) == 0) {
			*ret = (struct placement) {.policy = (uint8_t)i};
			return 0;
		}
	if (setting_size(text, &node) || node >= NODES_MAX)
		return tarn_fail(EINVAL,
			"node must be auto, local, interleave, or the number "
			"of a NUMA node below %u: %s",
			NODES_MAX, text);
	*ret = (struct placement) {PLACE_ON_NODE, (uint8_t)node};
	return 0;
}

static int take_node(struct options *o, const char *value)
{
	return setting_placement(value, &o->placement);
}

int setting_register(const char *text, bool *ret)
{
	if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
		return tarn_fail(
			EINVAL, "register must be yes or no, not %s", text);
	*ret = *text == 'y';
	return 0;
}

static int take_register(struct options *o, const char *value)
{
	return setting_register(value, &o->registers);
}

static int take_idle(struct options *o, const char *value)
{
	uint64_t seconds;

	if (setting_size(value, &seconds) || seconds > 1000000000)
		return tarn_fail(
			EINVAL, "idle is no number of seconds: %s", value);
	o->idle_ns = seconds * 1000000000ull;
	return 0;
}

static int take_mode(struct options *o, const char *value)
{
	/* To connect takes the right to write; to read alone is no use. */
	if (setting_mode(value, &o->mode) ||
		(o->mode != 0600 && o->mode != 0660 && o->mode != 0666))
		return tarn_fail(EINVAL,
			"mode must be 0600 (its own user), 0660 (and its "
			"group) or 0666 (all users), not %s",
			value);
	return 0;
}

static const struct setting {
	const char *name;
	int (*take)(struct options *o, const char *value);
} settings[] = {
	{"socket", take_socket},
	{"budget", take_budget},
	{"segment-size", take_segment_size},
	{"node", take_node},
	{"register", take_register},
	{"idle", take_idle},
	{"mode", take_mode},
};

const char *setting_name(unsigned i)
{
	return i < ARRAY_SIZE(settings) ? settings[i].name : NULL;
}

unsigned setting_bit(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(settings); i++)
		if (strcmp(settings[i].name, name) == 0)
			return 1u << i;
	return 0;
}

int setting_take(struct options *options, const char *name, const char *value)
{
	for (unsigned i = 0; i < ARRAY_SIZE(settings); i++)
		if (strcmp(settings[i].name, name) == 0)
			return settings[i].take(options, value);
	return tarn_fail(EINVAL, "there is no setting %s", name);
}
