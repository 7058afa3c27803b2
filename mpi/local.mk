# libtarn-mpi: views between the ranks of an MPI job. Built where there is an MPI,
# and needed by nothing else of tarn.
#
#	type       layouts as datatypes
#	agree      what ranks tell each other before they send; wait, with a deadline
#	bcast      and rows: scatter, all-gather

AM_CPPFLAGS += -I$(top_srcdir)/mpi/include

if HAVE_MPI
lib_LTLIBRARIES += mpi/libtarn-mpi.la
pkgconfig_DATA += mpi/tarn-mpi.pc
tarninclude_HEADERS += mpi/include/tarn/mpi.h

mpi_libtarn_mpi_la_SOURCES = \
	mpi/agree.c \
	mpi/agree.h \
	mpi/bcast.c \
	mpi/rank.c \
	mpi/rank.h \
	mpi/rows.c \
	mpi/type.c \
	mpi/type.h \
	mpi/wait.c \
	mpi/wait.h \
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
