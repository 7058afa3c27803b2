# tarnd: owns the pools, serves the socket, streams files in.

# The parts that stand alone; the white-box tests link them.
noinst_LTLIBRARIES += daemon/libdaemon.la
daemon_libdaemon_la_SOURCES = \
	daemon/alloc.c \
	daemon/alloc.h \
	daemon/headroom.c \
	daemon/headroom.h \
	daemon/headroom_cgroup.c \
	daemon/headroom_impl.h \
	daemon/internal.h \
	daemon/loader.c \
	daemon/loader_file.c \
	daemon/loader_impl.h \
	daemon/loader_job.c \
	daemon/loader_target.c \
	daemon/loop.c \
	daemon/loop.h \
	daemon/loop_epoll.c \
	daemon/loop_impl.h \
	$(NULL)
if HAVE_LIBURING
daemon_libdaemon_la_SOURCES += daemon/loop_uring.c
else
daemon_libdaemon_la_SOURCES += daemon/loop_uring_none.c
endif
daemon_libdaemon_la_CPPFLAGS = $(AM_CPPFLAGS) $(LIBURING_CFLAGS)
daemon_libdaemon_la_LIBADD = lib/libcore.la $(LIBURING_LIBS)
