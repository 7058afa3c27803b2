# libtarn-mpi: views between the ranks of an MPI job. Built where there is an MPI,
# and needed by nothing else of tarn.
#
#	type       layouts as datatypes
#	agree      what ranks tell each other before they send; wait, with a deadline
#	bcast      and rows: scatter, all-gather
#	load       a file for all nodes: source, the file; nodes, who they are; reader,
#		a node's part of it; ring, all parts; load_set, what is published;
#		world, for programs that have no mpi.h

AM_CPPFLAGS += -I$(top_srcdir)/mpi/include

if HAVE_MPI
lib_LTLIBRARIES += mpi/libtarn-mpi.la
pkgconfig_DATA += mpi/tarn-mpi.pc
tarninclude_HEADERS += \
	mpi/include/tarn/mpi.h \
	mpi/include/tarn/mpi_load.h \
	$(NULL)

mpi_libtarn_mpi_la_SOURCES = \
	mpi/agree.c \
	mpi/agree.h \
	mpi/bcast.c \
	mpi/load.c \
	mpi/load.h \
	mpi/load_set.c \
	mpi/nodes.c \
	mpi/nodes.h \
	mpi/rank.c \
	mpi/rank.h \
	mpi/reader.c \
	mpi/reader.h \
	mpi/ring.c \
	mpi/ring.h \
	mpi/rows.c \
	mpi/source.c \
	mpi/source.h \
	mpi/type.c \
	mpi/type.h \
	mpi/wait.c \
	mpi/wait.h \
	mpi/world.c \
	$(NULL)
mpi_libtarn_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
mpi_libtarn_mpi_la_LIBADD = lib/libtarn.la base/libbase.la $(MPI_LIBS)
mpi_libtarn_mpi_la_LDFLAGS = \
	$(AM_LDFLAGS) \
	$(LIBTARN_VERSION) \
	-Wl,--version-script=$(top_srcdir)/mpi/libtarn-mpi.map \
	-Wl,-z,relro,-z,now \
	-Wl,-Bsymbolic-functions \
	$(NULL)
EXTRA_mpi_libtarn_mpi_la_DEPENDENCIES = mpi/libtarn-mpi.map
endif
EXTRA_DIST += mpi/libtarn-mpi.map mpi/include/tarn/.clang-format
