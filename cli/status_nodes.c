/* SPDX-License-Identifier: MIT */
/* Where the segments of pools lie, on a machine with several NUMA nodes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/size.h"
#include "cli/status.h"
#include "cli/text.h"

static const char *policy(const struct tarn_report_nodes *p, char buf[16])
{
	static const char *const words[] = {[TARN_REPORT_NODE_AUTO] = "auto",
		[TARN_REPORT_NODE_LOCAL] = "local",
		[TARN_REPORT_NODE_INTERLEAVE] = "interleave"};

	if (p->policy < ARRAY_SIZE(words))
		return words[p->policy];
	if (p->policy == TARN_REPORT_NODE_ONE)
		snprintf(buf, 16, "%" PRIu32, p->node);
	else
		snprintf(buf, 16, "?");
	return buf;
}

static bool put_part(bool any, const char *where, uint64_t bytes)
{
	char size[SIZE_TEXT_MAX];

	if (bytes)
		printf("%s%s%s", any ? ", " : "", where,
			size_text((double)bytes, size));
	return any || bytes;
}

static void print_pool(const char *name, const struct tarn_report_nodes *p)
{
	char text[16], where[32];
	bool any = false;

	text_put_padded(stdout, name, 14);
	printf(" %-10s ", policy(p, text));
	for (int n = 0; n < TARN_REPORT_NODES; n++) {
		snprintf(where, sizeof(where), "node %d: ", n);
		any = put_part(any, where, p->on_node[n]);
	}
	any = put_part(any, "on several: ", p->on_several);
	any = put_part(any, "not known: ", p->on_unknown);
	printf("%s\n", any ? "" : "-");
}

void status_print_nodes(const struct tarn_report *report)
{
	bool any = false;

	for (uint32_t i = 0; i < report->n_pools; i++)
		any |= report->nodes[i].n > 1;
	if (!any)
		return;
	printf("\n%-14s %-10s %s\n", "POOL", "NODE", "SEGMENTS LIE ON");
	for (uint32_t i = 0; i < report->n_pools; i++)
		print_pool(report->pools[i].name, &report->nodes[i]);
}

void status_put_nodes(json_t *object, const struct tarn_report_nodes *p)
{
	json_t *nodes = must(json_object());
	char text[16];

	for (int n = 0; n < TARN_REPORT_NODES; n++) {
		snprintf(text, sizeof(text), "%d", n);
		if (p->on_node[n])
			json_put(nodes, text, json_u64(p->on_node[n]));
	}
	json_put(object, "node", json_text(policy(p, text)));
	json_put(object, "on_node", nodes);
	json_put(object, "on_several", json_u64(p->on_several));
	json_put(object, "on_unknown", json_u64(p->on_unknown));
}
