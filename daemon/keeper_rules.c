/* SPDX-License-Identifier: MIT */
/*
 * Access rules: who may see what, and the control region that says it.
 *
 * A region is mapped writable here first, so that every process forked later
 * inherits the mapping; the server maps it too, and then it is sealed, so that
 * nobody else can ever make such a mapping. A user without a rule gets one of
 * his own, which nobody else can see, when he comes for the first time.
 *
 * Each step may fail for want of something. Its users would wait for ever, so
 * it is tried again until it is done; or until the server dies, and the next
 * one inherits.
 */
#include "daemon/keeper.h"

#include <sys/random.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"
#include "shm/segment.h"

#define AGAIN_NS 100000000ull /* until it is tried again; picked */

static int rule_create(
	struct keeper *keeper, uint32_t number, const struct pool_spec *spec)
{
	struct keeper_rule *rule = &keeper->rules[number];
	_cleanup_fd_ int fd = -1;
	uint64_t seed;
	int r;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return tarn_fail(EIO, "no random numbers to be had");
	/* Sized by table_create, which knows how large a region is. */
	r = segment_create("tarn-table", 4096, 12, &fd);
	if (r < 0)
		return r;
	r = table_create(
		fd, keeper->instance, seed, number, spec->uid, &rule->table);
	if (r < 0)
		return r;
	rule->spec = *spec;
	rule->rw_fd = fd_steal(&fd);
	rule->ro_fd = -1;
	rule->pool_end = 0;
	return 0;
}

static void rule_free(struct keeper_rule *rule)
{
	fd_close(rule->rw_fd);
	fd_close(rule->ro_fd);
	table_unmap(&rule->table);
}

int keeper_rule_add(
	struct keeper *keeper, const struct pool_spec *spec, uint32_t *ret_rule)
{
	struct msg_rule message = {.rule = keeper->n_rules, .spec = *spec};
	int r;

	if (keeper->n_rules == RULES_MAX)
		return tarn_fail(EUSERS,
			"%u users and pools are served, which is the limit",
			RULES_MAX);
	r = rule_create(keeper, message.rule, spec);
	if (r < 0)
		return r;
	keeper->n_rules++;
	/* The server maps it while that is still possible, then says so. */
	r = keeper_tell(keeper, D_RULE, &message, sizeof(message),
		&keeper->rules[message.rule].rw_fd, 1);
	if (r < 0) {
		/* One that the server never hears of would shut its user out
		 * for good. */
		rule_free(&keeper->rules[--keeper->n_rules]);
		return r;
	}
	*ret_rule = message.rule;
	return 0;
}

int keeper_rule_for(struct keeper *keeper, uint32_t uid, uint32_t *ret_rule)
{
	struct pool_spec spec = {
		.uid = uid,
		.mode = 0600,
		.page_shift = 12,
		.segment_max = keeper->options.segment_max,
	};

	for (uint32_t i = 0; i < keeper->n_rules; i++) {
		const struct pool_spec *s = &keeper->rules[i].spec;

		if (!s->name[0] && s->uid == uid) {
			*ret_rule = i;
			return 0;
		}
	}
	return keeper_rule_add(keeper, &spec, ret_rule);
}

/* What a program before this one has left, in a region that can be written. */
static int rule_renew(struct keeper_rule *rule)
{
	_cleanup_fd_ int fd = -1;
	struct table next;
	int r = segment_create("tarn-table", 4096, 12, &fd);

	if (r == 0)
		r = table_copy(&rule->table, fd, &next);
	if (r < 0)
		return r;
	table_unmap(&rule->table);
	rule->table = next;
	rule->ro_fd = fd_close(rule->ro_fd);
	rule->rw_fd = fd_steal(&fd);
	rule->left = false;
	return 0;
}

/* Whatever fails, it can be tried again: what may be short comes first. */
static int rule_seal(struct keeper_rule *rule)
{
	_cleanup_fd_ int ro = -1;
	int r = segment_reopen(rule->rw_fd, &ro);

	if (r == 0)
		r = segment_seal(rule->rw_fd);
	if (r < 0)
		return r;
	rule->ro_fd = fd_steal(&ro);
	rule->rw_fd = fd_close(rule->rw_fd);
	return 0;
}

static struct msg_rule message_of(const struct keeper *keeper, uint32_t number)
{
	return (struct msg_rule) {
		.rule = number, .spec = keeper->rules[number].spec};
}

/* ---- what the server is told ------------------------------------------ */

/* It maps the region while that is still possible, then says so. */
static int offer(struct keeper *keeper, uint32_t number)
{
	struct msg_rule message = message_of(keeper, number);

	return keeper_tell(keeper, D_RULE, &message, sizeof(message),
		&keeper->rules[number].rw_fd, 1);
}

static int ready(struct keeper *keeper, uint32_t number)
{
	struct keeper_rule *rule = &keeper->rules[number];
	struct msg_rule message = message_of(keeper, number);
	int r = rule->rw_fd >= 0 ? rule_seal(rule) : 0;

	if (r < 0)
		return r;
	return keeper_tell(keeper, D_RULE_READY, &message, sizeof(message),
		&rule->ro_fd, 1);
}

static int tell_due(struct keeper *keeper, uint32_t number)
{
	struct keeper_rule *rule = &keeper->rules[number];
	int r = rule->due == DUE_OFFER ? offer(keeper, number)
				       : ready(keeper, number);

	if (r >= 0)
		rule->due = DUE_NOTHING;
	else
		keeper->rules_at = keeper_now() + AGAIN_NS;
	return r;
}

int keeper_rule_mapped(struct keeper *keeper, const struct msg_rule *answer)
{
	uint32_t number = answer->rule;
	struct keeper_rule *rule;

	if (number >= keeper->n_rules || keeper->rules[number].rw_fd < 0 ||
		keeper->rules[number].due)
		return tarn_fail(
			EPROTO, "no rule %u waits for its seal", number);
	rule = &keeper->rules[number];
	rule->due = answer->failed ? DUE_OFFER : DUE_READY;
	if (!answer->failed)
		return tell_due(keeper, number);
	keeper->rules_at = keeper_now() + AGAIN_NS;
	return 0;
}

void keeper_rules_look(struct keeper *keeper)
{
	if (!keeper->rules_at || keeper_now() < keeper->rules_at)
		return;
	keeper->rules_at = 0;
	for (uint32_t i = 0; i < keeper->n_rules; i++)
		if (keeper->rules[i].due && tell_due(keeper, i) < 0)
			log_error("rule_waits", log_u64("rule", i),
				log_text("error", tarn_fail_message()));
}

int keeper_rules_settle(struct keeper *keeper)
{
	int r = 0;

	for (uint32_t i = 0; i < keeper->n_rules && r >= 0; i++) {
		struct keeper_rule *rule = &keeper->rules[i];

		if (rule->left)
			r = rule_renew(rule);
		if (r >= 0 && rule->rw_fd >= 0)
			r = rule_seal(rule);
	}
	return r;
}

void keeper_rules_tell(struct keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->n_rules; i++) {
		struct msg_rule message = message_of(keeper, i);

		keeper->rules[i].due = DUE_NOTHING;
		keeper_replay(
			keeper, D_RULE, &message, sizeof(message), NULL, 0);
		keeper_replay(keeper, D_RULE_READY, &message, sizeof(message),
			&keeper->rules[i].ro_fd, 1);
	}
}

void keeper_rules_free(struct keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->n_rules; i++)
		rule_free(&keeper->rules[i]);
}
