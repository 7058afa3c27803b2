// SPDX-License-Identifier: MIT
/*
 * One reduction tells all ranks whether all is well, and if not, which is the
 * first rank that has something to say; then that one tells it to all. So what
 * each rank keeps and sends does not grow with their number, and nobody waits for
 * a rank that has given up.
 */
#include "mpi/agree.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

void said_failed(struct said *said, int r)
{
	if (said->error)
		return;
	said->error = -r;
	snprintf(said->text, sizeof(said->text), "%s", tarn_error_message());
}

int told_by(int rank, const char *what, void *bytes, size_t size, MPI_Comm comm,
	const struct mpi_deadline *deadline)
{
	struct mpi_post here, *post = deadline ? deadline->post : &here;
	MPI_Request request;
	int r;

	assert(size <= sizeof(post->bytes));
	memcpy(post->bytes, bytes, size);
	r = mpi_check(MPI_Ibcast(post->bytes, (int)size, MPI_BYTE, rank, comm,
			      &request),
		what);
	if (r >= 0)
		r = mpi_wait(&request, deadline, what);
	if (r >= 0)
		memcpy(bytes, post->bytes, size);
	return r;
}

/* ---- errors ---------------------------------------------------------- */

/* The first rank that has an error tells it. */
static int tell(const char *verb, const struct said *mine, int rank,
	MPI_Comm comm, const struct mpi_deadline *deadline)
{
	struct said said = *mine;
	char who[32];
	int r;

	snprintf(who, sizeof(who), "rank %d", rank);
	r = told_by(rank, who, &said, sizeof(said), comm, deadline);
	if (r < 0)
		return r;
	said.text[sizeof(said.text) - 1] = '\0';
	return tarn_error_set(said.error > 0 ? said.error : EIO, "%s: %s: %s",
		verb, who, said.text);
}

int said_by_all(const char *verb, const struct said *mine, MPI_Comm comm,
	const struct mpi_deadline *deadline, int *ret_least)
{
	struct mpi_post here, *post = deadline ? deadline->post : &here;
	MPI_Request request;
	int r;

	post->mine.value = mine->error ? -1 : mine->good;
	MPI_Comm_rank(comm, &post->mine.rank);
	/* MINLOC: of equal values that of the lowest rank. */
	r = mpi_check(MPI_Iallreduce(&post->mine, &post->least, 1, MPI_2INT,
			      MPI_MINLOC, comm, &request),
		verb);
	if (r >= 0)
		r = mpi_wait(&request, deadline, "another rank");
	if (r < 0)
		return r;
	if (post->least.value < 0)
		return tell(verb, mine, post->least.rank, comm, deadline);
	if (ret_least)
		*ret_least = post->least.value;
	return 0;
}

/* ---- disagreements --------------------------------------------------- */

struct form form_of(
	const char *verb, int root, const tarn_tensor *tensor, int first)
{
	const struct tarn_layout *l = tarn_tensor_layout(tensor);
	struct form form = {.root = root,
		.dtype = l->dtype,
		.ndim = l->ndim,
		.first = (uint8_t)first};

	snprintf(form.verb, sizeof(form.verb), "%s", verb);
	memcpy(form.shape, l->shape, sizeof(form.shape));
	return form;
}

static bool same_tensor(const struct form *a, const struct form *b)
{
	if (a->dtype != b->dtype || a->ndim != b->ndim)
		return false;
	for (int i = a->first; i < a->ndim; i++)
		if (a->shape[i] != b->shape[i])
			return false;
	return true;
}

/* "F32[4, 8]" */
static void form_text(const struct form *form, char *buf, size_t size)
{
	struct tarn_layout l;

	snprintf(buf, size, "%s", "a tensor that makes no sense");
	if (tarn_layout_contiguous(form->dtype, form->ndim, form->shape, &l) >=
		0)
		tarn_layout_format(&l, buf, size);
}

static int differs(const struct form *mine, const struct form *first)
{
	char a[400], b[400];

	if (strcmp(mine->verb, first->verb))
		return tarn_error_set(EINVAL, "it calls %s, rank 0 %s",
			mine->verb, first->verb);
	if (mine->root != first->root)
		return tarn_error_set(EINVAL,
			"its root is rank %d, that of rank 0 is %d", mine->root,
			first->root);
	if (same_tensor(mine, first))
		return 0;
	form_text(mine, a, sizeof(a));
	form_text(first, b, sizeof(b));
	return tarn_error_set(EINVAL,
		"it has %s, rank 0 has %s; %s must be the same on all ranks", a,
		b,
		mine->first ? "dtype and shape, but for dimension 0,"
			    : "dtype and shape");
}

int form_compare(const struct form *mine, MPI_Comm comm, struct said *said)
{
	struct form first = *mine;
	int r = mpi_check(MPI_Bcast(&first, sizeof(first), MPI_BYTE, 0, comm),
		mine->verb);

	if (r < 0)
		return r;
	first.verb[sizeof(first.verb) - 1] = '\0';
	r = differs(mine, &first);
	if (r < 0)
		said_failed(said, r);
	return 0;
}
