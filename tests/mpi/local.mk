# What needs an MPI: programs that mpirun starts with several ranks, from scripts
# that skip themselves where the programs were not built.
if HAVE_MPI
# Sanitizers find faults in MPI itself.
if !SANITIZERS
RANKS_TESTS = tests/mpi/load tests/mpi/moves tests/mpi/types
check_PROGRAMS += $(RANKS_TESTS)
MPI_TEST_LIBS = tests/libkit.la mpi/libtarn-mpi.la lib/libtarn.la $(MPI_LIBS)
MPI_TEST_RANKS = \
	tests/mpi/ranks.c \
	tests/mpi/ranks.h \
	tests/ops/views.c \
	tests/ops/views.h \
	$(NULL)
tests_mpi_load_SOURCES = tests/mpi/load.c $(MPI_TEST_RANKS)
tests_mpi_load_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_mpi_load_LDADD = $(MPI_TEST_LIBS)
tests_mpi_moves_SOURCES = tests/mpi/moves.c $(MPI_TEST_RANKS)
tests_mpi_moves_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_mpi_moves_LDADD = $(MPI_TEST_LIBS)
tests_mpi_types_SOURCES = \
	mpi/type.c \
	mpi/type.h \
	tests/mpi/types.c \
	$(MPI_TEST_RANKS) \
	$(NULL)
tests_mpi_types_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_mpi_types_LDADD = $(MPI_TEST_LIBS)
check_LTLIBRARIES += tests/mpi/liblate_world.la
tests_mpi_liblate_world_la_SOURCES = tests/mpi/late_world.c
tests_mpi_liblate_world_la_LDFLAGS = $(MODULE)
endif
endif

MPI_SCRIPT_TESTS = \
	tests/mpi/command.sh \
	tests/mpi/kills.sh \
	tests/mpi/links.sh \
	tests/mpi/load.sh \
	tests/mpi/moves.sh \
	$(NULL)
dist_check_SCRIPTS += $(MPI_SCRIPT_TESTS)
TESTS += $(MPI_SCRIPT_TESTS)
EXTRA_DIST += tests/mpi/kit.sh
