# Each measures one thing beside its reference, in the same run.

EXTRA_PROGRAMS = bench/fill
bench_fill_SOURCES = bench/fill.c
bench_fill_LDADD = lib/libcore.la
EXTRA_DIST += bench/fill.sh
CLEANFILES += $(EXTRA_PROGRAMS)
