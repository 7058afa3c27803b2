// SPDX-License-Identifier: MIT
/* Samples of a batch, one after another, into rows of memory. */
#include <stdlib.h>
#include <string.h>

#include <tarn/loader.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/ahead.h"

/* Samples after which a reader looks after its requests. Planning some takes as
 * long as a drive takes for a read. */
#define BETWEEN 16

void boundaries_end(struct boundaries *b)
{
	free(b->at);
	free(b->starts);
	*b = (struct boundaries) {.at = NULL};
}

/* Makes room for those of n samples, and of one more; they are empty. */
static int begin_boundaries(struct boundaries *b, uint64_t n)
{
	if (!b->at)
		b->at = calloc(n + 1, sizeof(*b->at));
	b->n_starts = 0;
	return b->at ? 0
		     : tarn_fail_constant(ENOMEM,
			       "data: no memory for a batch's boundaries");
}

static int room_for_boundaries(struct boundaries *b, size_t more)
{
	size_t room = MAX(2 * b->room, b->n_starts + more);
	int32_t *starts;

	if (b->n_starts + more <= b->room)
		return 0;
	starts = reallocarray(b->starts, room, sizeof(*starts));
	if (!starts)
		return tarn_fail_constant(
			ENOMEM, "data: no memory for a batch's boundaries");
	b->starts = starts;
	b->room = room;
	return 0;
}

static struct tarn_data_request request_for(
	const struct batch_form *form, const struct batch_memory *m, uint64_t i)
{
	size_t row = (size_t)form->seq_len + 1;
	struct tarn_data_request request = {
		.tokens = m->tokens + i * form->sample_bytes,
		.size = form->sample_bytes,
		.document = m->documents != NULL};

	if (m->positions)
		request.positions = m->positions + i * row;
	if (m->segments)
		request.segments = m->segments + i * row;
	return request;
}

static int plan_one(const struct batch_plan *p, uint64_t i)
{
	struct tarn_data_request request = request_for(p->form, p->memory, i);
	struct boundaries *b = p->boundaries;
	bool bounds = p->form->parts & TARN_LOADER_CU_SEQLENS;
	struct tarn_data_sample sample;
	int r = bounds ? room_for_boundaries(b, (size_t)p->form->seq_len + 1)
		       : 0;

	if (r >= 0 && bounds)
		request.cu_seqlens = b->starts + b->n_starts;
	if (r >= 0)
		r = data_get(
			p->data, p->position + i, &request, p->read, &sample);
	if (r < 0)
		return r;
	if (bounds) {
		/* The last one is where the next sample begins. */
		b->n_starts += sample.n_cu_seqlens - 1;
		b->at[i + 1] = (int32_t)b->n_starts;
	}
	if (p->memory->documents)
		p->memory->documents[i] = sample.document;
	return 0;
}

int batch_plan(const struct batch_plan *p)
{
	int r = 0;

	if (p->form->parts & TARN_LOADER_CU_SEQLENS)
		r = begin_boundaries(p->boundaries, p->n);
	for (uint64_t i = 0; r >= 0 && i < p->n; i++) {
		r = plan_one(p, i);
		if (p->between && i % BETWEEN == BETWEEN - 1)
			p->between(p->arg);
	}
	return r;
}
