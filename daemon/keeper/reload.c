/* SPDX-License-Identifier: MIT */
/*
 * Reading the configuration again while everything goes on.
 *
 * Quotas, the idle time, a pool's size, and new pools take effect at once.
 * Settings under which memory was already given out stay as they are until the
 * next start, and the log names them. A file with an error changes nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/config/settings.h"
#include "daemon/keeper/keeper.h"
#include "daemon/loop/log.h"

int keeper_pool_add(struct keeper *keeper, const struct pool_spec *spec)
{
	char mode[8];
	uint32_t number;
	int r = keeper_domain_add(keeper, spec, &number);

	snprintf(mode, sizeof(mode), "%04o", spec->mode & 07777u);
	if (r == 0)
		log_info("pool_new", log_text("pool", spec->name),
			log_u64("uid", spec->uid), log_u64("gid", spec->gid),
			log_text("mode", mode),
			log_text("pages", pool_pages_name(spec)));
	if (r == 0)
		keeper_pages_warn(spec);
	return r;
}

static void stays(const char *what, const char *of)
{
	log_warning("reload_kept", log_text("setting", what),
		log_text("of", of),
		log_text("until", "the daemon is started again"));
}

/* ---- pools ------------------------------------------------------------- */

static struct keeper_domain *domain_of_pool(
	struct keeper *keeper, const char *name)
{
	for (uint32_t i = 0; i < keeper->n_domains; i++)
		if (strcmp(keeper->domains[i].spec.name, name) == 0)
			return &keeper->domains[i];
	return NULL;
}

static bool is_listed(const struct config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_pools; i++)
		if (strcmp(config->pools[i].name, name) == 0)
			return true;
	return false;
}

static void reload_pool(struct keeper *keeper, const struct pool_spec *want)
{
	struct keeper_domain *domain = domain_of_pool(keeper, want->name);
	struct pool_spec same = *want;

	if (!domain) {
		if (keeper_pool_add(keeper, want) < 0)
			log_error("pool_failed", log_text("pool", want->name),
				log_text("error", tarn_fail_message()));
		return;
	}
	domain->spec.limit = want->limit;
	if (memcmp(&same, &domain->spec, sizeof(same)) != 0)
		stays("owner, group, mode, pages, segment-size, node and "
		      "register",
			want->name);
}

void keeper_pools_update(struct keeper *keeper, const struct config *config)
{
	for (uint32_t i = 0; i < config->n_pools; i++)
		reload_pool(keeper, &config->pools[i]);
	for (uint32_t i = 0; i < keeper->n_domains; i++) {
		const char *name = keeper->domains[i].spec.name;

		if (*name && !is_listed(config, name))
			stays("a pool that is listed no more", name);
	}
}

/* ---- settings ---------------------------------------------------------- */

static void reload_settings(struct keeper *keeper, const struct options *now)
{
	struct options *old = &keeper->options;

	old->idle_ns = now->idle_ns;
	if (strcmp(old->socket, now->socket) != 0)
		stays("socket", old->socket);
	if (old->budget != now->budget)
		stays("budget", old->socket);
	if (old->segment_max != now->segment_max)
		stays("segment-size", old->socket);
	if (memcmp(&old->placement, &now->placement, sizeof(old->placement)) !=
		0)
		stays("node", old->socket);
	if (old->registers != now->registers)
		stays("register", old->socket);
	if (old->mode != now->mode)
		stays("mode", old->socket);
}

static void send_settings(struct keeper *keeper)
{
	static struct msg_settings message;

	message.idle_ns = keeper->options.idle_ns;
	message.config = keeper->config;
	keeper_insist(keeper, D_SETTINGS, &message, sizeof(message));
}

static int read_again(struct keeper *keeper, struct config *config)
{
	struct options options = keeper->line;
	int r = config_read(&options, config);

	if (r == 0 && !options.socket)
		r = tarn_fail(
			EINVAL, "%s names no socket any more", options.config);
	if (r == 0)
		reload_settings(keeper, &options);
	/* The path in use is that of the start. */
	if (options.socket != keeper->line.socket)
		free((char *)options.socket);
	return r;
}

void keeper_reload(struct keeper *keeper)
{
	static struct config config;
	const char *path = keeper->line.config;

	if (!path) {
		log_info("reload", log_text("config", "there is none"));
		return;
	}
	if (read_again(keeper, &config) < 0) {
		log_error("reload_failed",
			log_text("error", tarn_fail_message()));
		return;
	}
	keeper_pools_update(keeper, &config);
	keeper->config = config;
	/* If the server is just dying, its successor gets them at its start. */
	send_settings(keeper);
	log_info("reload", log_text("config", path));
}
