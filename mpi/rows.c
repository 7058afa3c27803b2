// SPDX-License-Identifier: MIT
/*
 * Scatter and all-gather along dimension 0: each rank's rows are a view of the
 * whole, and so a datatype of its own. The messages are from one rank to another,
 * on a communicator that lives as long as the call, so that they meet no others.
 */
#include <errno.h>
#include <stdio.h>

#include <tarn/copy.h>
#include <tarn/mpi.h>

#include "base/checked.h"
#include "mpi/agree.h"
#include "mpi/rank.h"

#define SCATTER "tarn_mpi_scatter"
#define ALLGATHER "tarn_mpi_allgather"

struct rows {
	const char *verb;
	MPI_Comm comm; /* of the caller; then one of our own */
	int rank, size;
	int64_t *
		starts; /* rank i has the rows from starts[i] to starts[i + 1] */
	MPI_Request *requests; /* to each rank */
};

static void rows_free(struct rows *rows)
{
	free(rows->starts);
	free(rows->requests);
}
#define _cleanup_rows_ _cleanup_(rows_free)

static void rows_begin(const char *verb, MPI_Comm comm, struct rows *rows)
{
	*rows = (struct rows) {.verb = verb, .comm = comm};
	MPI_Comm_rank(comm, &rows->rank);
	MPI_Comm_size(comm, &rows->size);
}

/* What this rank may lack is told to all. */
static int rows_room(struct rows *rows)
{
	size_t n = (size_t)rows->size;

	rows->starts = calloc(n + 1, sizeof(*rows->starts));
	rows->requests = calloc(n, sizeof(*rows->requests));
	if (!rows->starts || !rows->requests)
		return tarn_error_set(ENOMEM, "out of memory");
	return 0;
}

static int64_t count_of(const struct rows *rows, int rank)
{
	return rows->starts[rank + 1] - rows->starts[rank];
}

/* ---- what ranks must agree about ------------------------------------- */

/* Is part some rows of whole? */
static int check_part(const tarn_tensor *whole, const tarn_tensor *part)
{
	const struct tarn_layout *w = tarn_tensor_layout(whole),
				 *p = tarn_tensor_layout(part);
	char a[400], b[400];
	bool same = w->dtype == p->dtype && w->ndim == p->ndim && w->ndim;

	for (int i = 1; same && i < w->ndim; i++)
		same = w->shape[i] == p->shape[i];
	if (same)
		return 0;
	tarn_layout_format(w, a, sizeof(a));
	tarn_layout_format(p, b, sizeof(b));
	return tarn_error_set(EINVAL,
		"its part is %s, which is no rows of the whole, %s", b, a);
}

/* The rows of all parts, which make up the whole; NULL: not known here. */
static int count_rows(struct rows *rows, const tarn_tensor *part,
	const tarn_tensor *whole, struct said *said)
{
	const struct tarn_layout *p = tarn_tensor_layout(part);
	int64_t mine = p->ndim ? p->shape[0] : 0, *starts = rows->starts, all;
	int r = mpi_check(MPI_Allgather(&mine, 1, MPI_INT64_T, starts + 1, 1,
				  MPI_INT64_T, rows->comm),
		rows->verb);

	if (r < 0)
		return r;
	for (int i = 0; i < rows->size; i++)
		if (add_i64(starts[i], starts[i + 1], &starts[i + 1]))
			starts[i + 1] = INT64_MAX;
	if (!whole || !tarn_tensor_layout(whole)->ndim)
		return 0;
	all = tarn_tensor_layout(whole)->shape[0];
	if (starts[rows->size] != all)
		said_failed(said,
			tarn_error_set(EINVAL,
				"its whole has %lld rows, but all "
				"parts together have %lld",
				(long long)all, (long long)starts[rows->size]));
	return 0;
}

/* ---- moving ---------------------------------------------------------- */

/* The rows of a rank as a view, and its datatype. */
static int view_of(const struct rows *rows, const tarn_tensor *whole, int rank,
	tarn_tensor **ret_view, MPI_Datatype *ret_type)
{
	/* A view of what is only read changes nothing of it. */
	int r = tarn_tensor_narrow((tarn_tensor *)whole, 0, rows->starts[rank],
		count_of(rows, rank), ret_view);

	return r < 0 ? r : tarn_mpi_type(*ret_view, ret_type);
}

static bool same_place(const tarn_tensor *a, const tarn_tensor *b)
{
	const struct tarn_layout *x = tarn_tensor_layout(a),
				 *y = tarn_tensor_layout(b);

	if (tarn_tensor_data(a) != tarn_tensor_data(b))
		return false;
	for (int i = 0; i < x->ndim; i++)
		if (x->shape[i] > 1 && x->stride[i] != y->stride[i])
			return false;
	return true;
}

/* This rank's own rows, which need no message; an error is noted. */
static int copy_to(const struct rows *rows, const tarn_tensor *whole,
	tarn_tensor *part, bool gather)
{
	_cleanup_tensor_ tarn_tensor *own = NULL;
	int r = tarn_tensor_narrow((tarn_tensor *)whole, 0,
		rows->starts[rows->rank], count_of(rows, rows->rank), &own);

	if (r < 0 || same_place(own, part))
		return r;
	if (rank_shares_bytes(part, whole))
		return tarn_error_set(EINVAL,
			"its part shares bytes with rows of the whole that are "
			"not its own, or lie otherwise; give a clone of it");
	return gather ? tarn_copy(own, part, NULL, NULL)
		      : tarn_copy(part, own, NULL, NULL);
}

static void copy_own(const struct rows *rows, const tarn_tensor *whole,
	tarn_tensor *part, bool gather, struct said *said)
{
	int r = said->error ? 0 : copy_to(rows, whole, part, gather);

	if (r < 0)
		said_failed(said, r);
}

static int send_to(const struct rows *rows, const tarn_tensor *whole, int rank,
	MPI_Request *request)
{
	_cleanup_type_ MPI_Datatype type = MPI_DATATYPE_NULL;
	_cleanup_tensor_ tarn_tensor *view = NULL;
	int r = view_of(rows, whole, rank, &view, &type);

	/* A type is freed when the message is through, the view's bytes are
	 * the caller's. */
	if (r >= 0)
		r = mpi_check(MPI_Isend(tarn_tensor_data(view), 1, type, rank,
				      0, rows->comm, request),
			rows->verb);
	return r;
}

static int send_all(const struct rows *rows, const tarn_tensor *whole)
{
	MPI_Request *requests = rows->requests;
	int n = 0, r = 0;

	for (int i = 0; r >= 0 && i < rows->size; i++)
		if (i != rows->rank && count_of(rows, i))
			r = send_to(rows, whole, i, &requests[n++]);
	for (int i = 0; r >= 0 && i < n; i++)
		r = mpi_check(
			MPI_Wait(&requests[i], MPI_STATUS_IGNORE), rows->verb);
	return r;
}

static int receive(const struct rows *rows, tarn_tensor *part, int root)
{
	_cleanup_type_ MPI_Datatype type = MPI_DATATYPE_NULL;
	int r;

	if (!count_of(rows, rows->rank))
		return 0;
	r = tarn_mpi_type(part, &type);
	if (r >= 0)
		r = mpi_check(MPI_Recv(tarn_tensor_data(part), 1, type, root, 0,
				      rows->comm, MPI_STATUS_IGNORE),
			rows->verb);
	return r;
}

/* One step of the ring: what this rank has got last goes on to the next one. */
static int step(const struct rows *rows, tarn_tensor *whole, int at)
{
	_cleanup_type_ MPI_Datatype out = MPI_DATATYPE_NULL,
				    in = MPI_DATATYPE_NULL;
	_cleanup_tensor_ tarn_tensor *from = NULL, *to = NULL;
	int n = rows->size, out_of = (rows->rank - at + n) % n,
	    in_of = (out_of - 1 + n) % n;
	int r = view_of(rows, whole, out_of, &from, &out);

	if (r >= 0)
		r = view_of(rows, whole, in_of, &to, &in);
	if (r < 0)
		return r;
	return mpi_check(MPI_Sendrecv(tarn_tensor_data(from), 1, out,
				 (rows->rank + 1) % n, 0, tarn_tensor_data(to),
				 1, in, (rows->rank - 1 + n) % n, 0, rows->comm,
				 MPI_STATUS_IGNORE),
		rows->verb);
}

/* ---- the calls ------------------------------------------------------- */

/* All ranks make one call, and find nothing wrong with their arguments: then
 * there is a communicator for this call's messages. */
static int agree(struct rows *rows, const struct form *form, struct said *said,
	int checked)
{
	int r = form_compare(form, rows->comm, said);
	MPI_Comm own;

	if (checked >= 0)
		checked = rows_room(rows);
	if (checked < 0)
		said_failed(said, checked);
	if (r >= 0)
		r = said_by_all(rows->verb, said, rows->comm, NULL, NULL);
	if (r >= 0)
		r = mpi_check(MPI_Comm_dup(rows->comm, &own), rows->verb);
	if (r >= 0)
		rows->comm = own;
	return r;
}

static int check_scatter(const struct rows *rows, const tarn_tensor *whole,
	const tarn_tensor *part, int root)
{
	int r = rank_check_root(root, rows->size);

	if (r >= 0)
		r = rank_check_target(part);
	if (r < 0 || rows->rank != root)
		return r;
	if (!whole)
		return tarn_error_set(
			EINVAL, "it is the root and has no whole");
	r = check_part(whole, part);
	return r < 0 ? r : rank_check_source(whole);
}

static int scatter(struct rows *rows, const tarn_tensor *whole,
	tarn_tensor *part, int root)
{
	struct said mine = {0};
	int r;

	if (rows->rank != root)
		whole = NULL;
	r = count_rows(rows, part, whole, &mine);
	if (r >= 0 && whole)
		copy_own(rows, whole, part, false, &mine);
	if (r >= 0)
		r = said_by_all(SCATTER, &mine, rows->comm, NULL, NULL);
	if (r < 0)
		return r;
	return whole ? send_all(rows, whole) : receive(rows, part, root);
}

TARN_PUBLIC int tarn_mpi_scatter(
	const tarn_tensor *whole, tarn_tensor *part, int root, MPI_Comm comm)
{
	struct form form = form_of(SCATTER, root, part, 1);
	_cleanup_rows_ struct rows rows = {0};
	struct said mine = {0};
	int r = rank_check_comm(SCATTER, comm);

	if (r >= 0) {
		rows_begin(SCATTER, comm, &rows);
		r = agree(&rows, &form, &mine,
			check_scatter(&rows, whole, part, root));
	}
	if (r < 0)
		return r;
	r = scatter(&rows, whole, part, root);
	MPI_Comm_free(&rows.comm);
	return r;
}

static int check_gather(const tarn_tensor *part, const tarn_tensor *whole)
{
	int r = check_part(whole, part);

	if (r >= 0)
		r = rank_check_source(part);
	return r < 0 ? r : rank_check_target(whole);
}

static int gather(
	struct rows *rows, const tarn_tensor *part, tarn_tensor *whole)
{
	struct said mine = {0};
	int r = count_rows(rows, part, whole, &mine);

	if (r >= 0) {
		copy_own(rows, whole, (tarn_tensor *)part, true, &mine);
		r = said_by_all(ALLGATHER, &mine, rows->comm, NULL, NULL);
	}
	for (int at = 0; r >= 0 && at < rows->size - 1; at++)
		r = step(rows, whole, at);
	return r;
}

TARN_PUBLIC int tarn_mpi_allgather(
	const tarn_tensor *part, tarn_tensor *whole, MPI_Comm comm)
{
	struct form form = form_of(ALLGATHER, 0, whole, 0);
	_cleanup_rows_ struct rows rows = {0};
	struct said mine = {0};
	int r = rank_check_comm(ALLGATHER, comm);

	if (r >= 0) {
		rows_begin(ALLGATHER, comm, &rows);
		r = agree(&rows, &form, &mine, check_gather(part, whole));
	}
	if (r < 0)
		return r;
	r = gather(&rows, part, whole);
	MPI_Comm_free(&rows.comm);
	return r;
}
