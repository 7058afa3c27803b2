// SPDX-License-Identifier: MIT
/* Sources of records one after another. */
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/record.h"

struct data_chain *data_chain_free(struct data_chain *chain)
{
	if (!chain)
		return NULL;
	for (size_t i = 0; i < chain->n; i++)
		tarn_data_source_unref(chain->at[i].source);
	free(chain->at);
	free(chain);
	return NULL;
}

/* Those without records begin where the next one does. */
const struct data_link *data_chain_find(
	const struct data_chain *chain, uint64_t record)
{
	size_t low = 0, high = chain->n;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (chain->at[middle].first <= record)
			low = middle;
		else
			high = middle;
	}
	return &chain->at[low];
}

static int add_link(
	struct data_chain *chain, tarn_data_source *source, size_t i)
{
	if (!source || !data_has_records(source))
		return tarn_fail(EINVAL,
			"data: source %zu of a chain has no records", i);
	chain->at[i] =
		(struct data_link) {.source = tarn_data_source_ref(source),
			.first = chain->n_records};
	chain->n = i + 1;
	if (add_u64(chain->n_records, data_source_count(source),
		    &chain->n_records) ||
		chain->n_records > INT64_MAX)
		return tarn_fail_constant(
			EOVERFLOW, "data: a chain has more than 2^63 records");
	return 0;
}

int tarn_data_source_chain(
	tarn_data_source *const *sources, size_t n, tarn_data_source **ret)
{
	_cleanup_source_ tarn_data_source *source = data_source_new("chain");
	int r = 0;

	if (!source)
		return -ENOMEM;
	if (!n)
		return tarn_fail_constant(
			EINVAL, "data: a chain has at least one source");
	source->chain = calloc(1, sizeof(*source->chain));
	if (source->chain)
		source->chain->at = calloc(n, sizeof(*source->chain->at));
	if (!source->chain || !source->chain->at)
		return tarn_fail(ENOMEM, "data: no memory for %zu sources", n);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = add_link(source->chain, sources[i], i);
	if (r >= 0)
		*ret = STEAL(source);
	return r;
}
