/* SPDX-License-Identifier: MIT */
/*
 * A publication that is asked again, and of which the table says nothing: was
 * it done, and has somebody covered its traces? Then to do it would undo what
 * others did in between, so it is refused, and who asked may look.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server_publish_impl.h"

/* ---- a prefix -------------------------------------------------------- */

/* What there is below the prefix. */
struct below {
	const struct publish *publish;
	bool any;
	bool older; /* than the request */
};

static int look_below(void *arg, const char *name, size_t size,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	struct below *b = arg;
	const struct publish *p = b->publish;

	(void)descriptor;
	(void)version;
	b->any = true;
	b->older = !table_written_since(&p->rule->table, name, size, p->since);
	return b->older;
}

/* A prefix whose names are only removed: no version carries its token. But one
 * of before it that stands says that it was not done, since it would have gone
 * with the others; and where nothing stands there is nothing to undo. */
static int check_prefix_doubt(const struct publish *p)
{
	struct below below = {.publish = p};
	int r = 0;

	if (p->since && !p->names.n)
		r = table_list(&p->rule->table, p->prefix, p->prefix_size,
			look_below, &below);
	if (r < 0 || !below.any || below.older)
		return MIN(r, 0);
	return tarn_fail(EIO,
		"all that is below \"%.*s\" was published by others while the "
		"daemon's server was replaced: nobody can tell whether this "
		"removal was done; look at it, and remove it again if it shall "
		"go",
		(int)p->prefix_size, p->prefix);
}

/* ---- the whole ------------------------------------------------------- */

int publish_check_doubt(const struct publish *p)
{
	const unsigned char *at = p->names.at;
	struct named named;

	for (uint32_t i = 0; i < p->names.n && p->since; i++)
		if (name_next(&p->names, &at, &named) == 0 &&
			table_written_since(&p->rule->table, named.name,
				named.name_size, p->since))
			return tarn_fail(EIO,
				"\"%.*s\" was published or removed by others "
				"while the daemon's server was replaced: "
				"nobody can tell whether this publication was "
				"done; look at it, and publish again if not",
				(int)named.name_size, named.name);
	return check_prefix_doubt(p);
}
