# Each measures one thing beside its reference, in the same run.

EXTRA_PROGRAMS = \
	bench/channel \
	bench/clients \
	bench/convert \
	bench/data \
	bench/data_order \
	bench/fill \
	bench/first_use \
	bench/gather \
	bench/lease \
	bench/load \
	bench/loader \
	bench/lookup \
	bench/many \
	bench/minilm \
	bench/mmap \
	bench/open \
	bench/populate \
	bench/publish \
	bench/read \
	bench/read_file \
	bench/refit \
	bench/register \
	bench/restart \
	bench/ring \
	bench/save \
	bench/snapshot \
	bench/stream \
	bench/transpose \
	bench/view \
	bench/write \
	$(NULL)
# Those that look inside link the core, the others what a user links.
bench_channel_LDADD = lib/libtarn.la
bench_clients_LDADD = lib/libcore.la
bench_convert_LDADD = lib/libcore.la
bench_data_LDADD = lib/libtarn.la -lm
bench_data_order_LDADD = lib/libtarn.la
bench_fill_LDADD = lib/libcore.la
bench_first_use_LDADD = lib/libtarn.la
bench_gather_LDADD = lib/libtarn.la
bench_lease_LDADD = lib/libcore.la
bench_load_LDADD = lib/libtarn.la
bench_loader_LDADD = lib/libtarn.la
bench_lookup_LDADD = lib/libcore.la
bench_many_LDADD = lib/libtarn.la
bench_minilm_SOURCES = bench/minilm.c examples/minilm.c examples/minilm.h
bench_minilm_LDADD = ops/libtarnops.la lib/libtarn.la
bench_mmap_LDADD = lib/libtarn.la
bench_open_LDADD = lib/libcore.la
bench_populate_LDADD = daemon/libdaemon.la
bench_publish_LDADD = lib/libtarn.la
bench_read_LDADD = lib/libtarn.la
bench_read_file_LDADD = lib/libtarn.la
bench_refit_LDADD = lib/libtarn.la
bench_register_LDADD = lib/libcore.la
bench_restart_LDADD = lib/libtarn.la
bench_ring_LDADD = lib/libcore.la
bench_save_LDADD = lib/libtarn.la
bench_snapshot_LDADD = lib/libtarn.la
bench_stream_LDADD = lib/libtarn.la
bench_transpose_LDADD = lib/libtarn.la
bench_view_LDADD = lib/libtarn.la
bench_write_LDADD = lib/libtarn.la
if HAVE_BLAS
EXTRA_PROGRAMS += bench/ops_matmul
bench_ops_matmul_CPPFLAGS = $(AM_CPPFLAGS) $(BLAS_CFLAGS)
bench_ops_matmul_LDADD = ops/libtarnops.la lib/libtarn.la $(BLAS_LIBS)
endif
CLEANFILES += $(EXTRA_PROGRAMS)

# BENCHES: scripts that are given no argument and run in the build folder.
BENCHES = \
	bench/async_save.sh \
	bench/channel.sh \
	bench/clients.sh \
	bench/column.sh \
	bench/convert.sh \
	bench/data.sh \
	bench/data_cache.sh \
	bench/data_order.sh \
	bench/data_peers.sh \
	bench/data_tar.sh \
	bench/embed_pss.sh \
	bench/fill.sh \
	bench/first_load.sh \
	bench/first_use.sh \
	bench/from_pretrained.sh \
	bench/gather.sh \
	bench/ops.sh \
	bench/lease.sh \
	bench/load.sh \
	bench/loader.sh \
	bench/lookup.sh \
	bench/many.sh \
	bench/minilm.sh \
	bench/mmap.sh \
	bench/nodes.sh \
	bench/open.sh \
	bench/ops_matmul.sh \
	bench/pool.sh \
	bench/publish.sh \
	bench/py_channel.sh \
	bench/py_loader.sh \
	bench/read.sh \
	bench/read_file.sh \
	bench/refit.sh \
	bench/register.sh \
	bench/replay.sh \
	bench/restart.sh \
	bench/ring.sh \
	bench/save.sh \
	bench/snapshot.sh \
	bench/stream.sh \
	bench/transpose.sh \
	bench/view.sh \
	bench/write.sh \
	$(NULL)
EXTRA_DIST += \
	$(BENCHES) \
	bench/daemon.sh \
	bench/fio.sh \
	bench/data_cache.py \
	bench/async_save.py \
	bench/data_peers.py \
	bench/data_peers_corpus.py \
	bench/data_tar.py \
	bench/first_load.py \
	bench/from_pretrained.py \
	bench/gather.py \
	bench/ops.py \
	bench/huge.sh \
	bench/minilm.py \
	bench/nodes.py \
	bench/pair.h \
	bench/py_channel.py \
	bench/py_loader.py \
	bench/read_file.py \
	bench/replay.py \
	bench/times.h \
	bench/transpose.py \
	$(NULL)

# One after the other: both would make the libraries.
.PHONY: bench
bench:
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(EXTRA_PROGRAMS)
	$(AM_V_at)for b in $(BENCHES); do \
		echo "== $$b"; sh $(srcdir)/$$b || exit 1; \
	done
