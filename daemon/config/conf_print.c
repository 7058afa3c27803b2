/* SPDX-License-Identifier: MIT */
/*
 * Prints the settings as a configuration file, which can be read again and
 * means the same.
 */
#include "daemon/config/conf.h"

#include <inttypes.h>

/* The largest unit in which the size is a whole number. */
static void print_size(FILE *f, const char *key, uint64_t size)
{
	static const char units[] = "KMGT";
	int i = -1;

	while (size && size % 1024 == 0 && i < 3) {
		size /= 1024;
		i++;
	}
	fprintf(f, "%s = %" PRIu64 "%.*s\n", key, size, i >= 0, units + i);
}

static void print_node(FILE *f, struct placement placement)
{
	static const char *const words[] = {[PLACE_AUTO] = "auto",
		[PLACE_LOCAL] = "local",
		[PLACE_INTERLEAVE] = "interleave"};

	if (placement.policy == PLACE_ON_NODE)
		fprintf(f, "node = %u\n", placement.node);
	else
		fprintf(f, "node = %s\n", words[placement.policy]);
}

static void print_register(FILE *f, bool registers)
{
	fprintf(f, "register = %s\n", registers ? "yes" : "no");
}

static void print_daemon(const struct options *o, FILE *f)
{
	fprintf(f, "[daemon]\n");
	if (o->socket)
		fprintf(f, "socket = %s\n", o->socket);
	if (o->budget)
		print_size(f, "budget", o->budget);
	else
		fprintf(f, "; budget: half of what is free at the start\n");
	print_size(f, "segment-size", o->segment_max);
	print_node(f, o->placement);
	print_register(f, o->registers);
	fprintf(f, "idle = %" PRIu64 "\n", o->idle_ns / 1000000000u);
	fprintf(f, "mode = %04o\n", o->mode);
}

static void print_pool(const struct pool_spec *pool, FILE *f)
{
	fprintf(f, "\n[pool %s]\n", pool->name);
	if (pool->limit)
		print_size(f, "size", pool->limit);
	else
		fprintf(f, "; size: the budget\n");
	fprintf(f, "pages = %s\n", pool_pages_name(pool));
	print_size(f, "segment-size", pool->segment_max);
	print_node(f, pool->placement);
	print_register(f, pool->flags & POOL_REGISTER);
	fprintf(f, "owner = %u\ngroup = %u\nmode = %04o\n", pool->uid,
		pool->gid, pool->mode);
}

static void print_quota(const struct quota *quota, FILE *f)
{
	for (int i = 0; i < QUOTA_KINDS; i++)
		if (quota->limit[i] != QUOTA_UNSAID)
			print_size(f, quota_key(i), quota->limit[i]);
		else
			fprintf(f, "; %s: no limit of its own\n", quota_key(i));
}

void config_print(
	const struct options *options, const struct config *config, FILE *f)
{
	/* A uid that no user has: the quota of users without a section. */
	struct quota common = config_quota(config, UINT32_MAX);

	print_daemon(options, f);
	for (uint32_t i = 0; i < config->n_pools; i++)
		print_pool(&config->pools[i], f);
	fprintf(f, "\n[quota]\n");
	print_quota(&common, f);
	for (uint32_t i = 0; i < config->n_users; i++) {
		struct quota one = config_quota(config, config->users[i].uid);

		fprintf(f, "\n[quota %u]\n", config->users[i].uid);
		print_quota(&one, f);
	}
}
