/* SPDX-License-Identifier: MIT */
#include "tests/cli/doctor_findings.h"

#include <string.h>

#include "tests/kit/tap.h"

const struct finding *doctor_finding(const struct findings *f, const char *key)
{
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->at[i].key, key) == 0)
			return &f->at[i];
	bail("nothing is found of %s", key);
}

void doctor_wants(
	const struct findings *findings, const struct wanted *w, const char *on)
{
	const struct finding *f = doctor_finding(findings, w->key);
	const char *remedy = w->remedy ? w->remedy : "";

	if (!ok(f->worth == w->worth && strstr(f->value, w->value) &&
			    strstr(f->remedy, remedy),
		    "%s: %s, %s", on, w->key, w->value))
		diag("seen: worth %d, value '%s', remedy '%s'", f->worth,
			f->value, f->remedy);
}

void doctor_are_whole(const struct findings *f, const char *on)
{
	size_t wrong = 0;

	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->at[i];
		bool advice =
			one->worth == WORTH_COSTS || one->worth == WORTH_BROKEN;

		if (!*one->value || !one->cost == advice ||
			!*one->remedy == advice) {
			diag("%s: '%s' '%s' '%s'", one->key, one->value,
				one->cost ? one->cost : "", one->remedy);
			wrong++;
		}
	}
	is_int(0, (int64_t)wrong, "%s: findings are whole", on);
}

struct findings doctor_look(const struct machine *machine)
{
	struct findings f = {0};

	find_system(&f, machine);
	find_reading(&f, machine);
	find_memory(&f, machine);
	find_pages(&f, machine);
	find_nodes(&f, machine);
	find_gpu(&f, machine);
	return f;
}
