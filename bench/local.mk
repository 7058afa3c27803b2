# Each measures one thing beside its reference, in the same run.

EXTRA_PROGRAMS = bench/fill bench/view
bench_fill_SOURCES = bench/fill.c
bench_fill_LDADD = lib/libcore.la
bench_view_SOURCES = bench/view.c
bench_view_LDADD = lib/libtarn.la
EXTRA_PROGRAMS += bench/lookup
bench_lookup_SOURCES = bench/lookup.c
bench_lookup_LDADD = lib/libcore.la
EXTRA_PROGRAMS += bench/load
bench_load_SOURCES = bench/load.c
bench_load_LDADD = lib/libtarn.la
CLEANFILES += $(EXTRA_PROGRAMS)

# BENCHES: scripts that are given no argument and run in the build folder.
BENCHES = bench/fill.sh bench/load.sh bench/lookup.sh bench/view.sh
EXTRA_DIST += $(BENCHES) bench/fio.sh

# One after the other: both would make the libraries.
.PHONY: bench
bench:
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(EXTRA_PROGRAMS)
	$(AM_V_at)for b in $(BENCHES); do \
		echo "== $$b"; sh $(srcdir)/$$b || exit 1; \
	done
