/* SPDX-License-Identifier: MIT */
/* The list of findings. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/doctor/doctor.h"
#include "cli/message.h"

void findings_free(struct findings *findings)
{
	free(findings->at);
	*findings = (struct findings) {0};
}

static struct finding *add(struct findings *findings, const char *group,
	const char *key, enum worth worth)
{
	struct finding *finding;

	findings->at = must(reallocarray(
		findings->at, findings->n + 1, sizeof(findings->at[0])));
	finding = &findings->at[findings->n++];
	*finding =
		(struct finding) {.group = group, .key = key, .worth = worth};
	return finding;
}

struct finding *found(struct findings *findings, const char *group,
	const char *key, const char *fmt, ...)
{
	struct finding *finding = add(findings, group, key, WORTH_GOOD);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(finding->value, sizeof(finding->value), fmt, ap);
	va_end(ap);
	return finding;
}

struct finding *found_unknown(struct findings *findings, const char *group,
	const char *key, const char *fmt, ...)
{
	struct finding *finding = add(findings, group, key, WORTH_UNKNOWN);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(finding->value, sizeof(finding->value), fmt, ap);
	va_end(ap);
	return finding;
}

void advise(struct finding *finding, enum worth worth, const char *cost,
	const char *fmt, ...)
{
	va_list ap;

	finding->worth = worth;
	finding->cost = cost;
	va_start(ap, fmt);
	vsnprintf(finding->remedy, sizeof(finding->remedy), fmt, ap);
	va_end(ap);
}

size_t findings_count(const struct findings *findings, enum worth worth)
{
	size_t n = 0;

	for (size_t i = 0; i < findings->n; i++)
		n += findings->at[i].worth == worth;
	return n;
}
