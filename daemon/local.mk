# tarnd: owns the pools, serves the socket, streams files in.

# The parts that stand alone; the white-box tests link them.
noinst_LTLIBRARIES += daemon/libdaemon.la
daemon_libdaemon_la_SOURCES = \
	daemon/alloc.c \
	daemon/alloc.h \
	daemon/closer.c \
	daemon/closer.h \
	daemon/conf.c \
	daemon/conf.h \
	daemon/conf_impl.h \
	daemon/conf_pool.c \
	daemon/conf_print.c \
	daemon/door.c \
	daemon/door.h \
	daemon/internal.h \
	daemon/keeper.c \
	daemon/keeper.h \
	daemon/keeper_clients.c \
	daemon/keeper_fork.c \
	daemon/keeper_kept.c \
	daemon/keeper_holes.c \
	daemon/keeper_loaders.c \
	daemon/keeper_memory.c \
	daemon/keeper_reload.c \
	daemon/keeper_rules.c \
	daemon/keeper_server.c \
	daemon/keeper_state.c \
	daemon/keeper_state.h \
	daemon/keeper_upgrade.c \
	daemon/kept.c \
	daemon/kept.h \
	daemon/loader.c \
	daemon/loader_file.c \
	daemon/loader_impl.h \
	daemon/loader_job.c \
	daemon/loader_target.c \
	daemon/log.c \
	daemon/log.h \
	daemon/loop.c \
	daemon/loop.h \
	daemon/loop_epoll.c \
	daemon/loop_impl.h \
	daemon/numa.h \
	daemon/oom.c \
	daemon/oom.h \
	daemon/options.c \
	daemon/options.h \
	daemon/populate.c \
	daemon/populate.h \
	daemon/pressure.c \
	daemon/pressure.h \
	daemon/quota.c \
	daemon/quota.h \
	daemon/server.c \
	daemon/server.h \
	daemon/server_cache.c \
	daemon/server_cache.h \
	daemon/server_channel.c \
	daemon/server_channel.h \
	daemon/server_channel_impl.h \
	daemon/server_channel_look.c \
	daemon/server_check.c \
	daemon/server_client.c \
	daemon/server_client.h \
	daemon/server_count.c \
	daemon/server_evict.c \
	daemon/server_expiry.c \
	daemon/server_frozen.c \
	daemon/server_idle.c \
	daemon/server_keeper.c \
	daemon/server_kept.c \
	daemon/server_leases.c \
	daemon/server_load.c \
	daemon/server_load.h \
	daemon/server_load_end.c \
	daemon/server_load_fill.c \
	daemon/server_load_find.c \
	daemon/server_load_impl.h \
	daemon/server_load_parse.c \
	daemon/server_load_publish.c \
	daemon/server_load_start.c \
	daemon/server_loader.c \
	daemon/server_loader.h \
	daemon/server_memory.c \
	daemon/server_names.c \
	daemon/server_names.h \
	daemon/server_own.c \
	daemon/server_own.h \
	daemon/server_pool.c \
	daemon/server_quota.c \
	daemon/server_quota.h \
	daemon/server_quota_check.c \
	daemon/server_quota_names.c \
	daemon/server_process.c \
	daemon/server_reap.c \
	daemon/server_rebuild.c \
	daemon/server_remove.c \
	daemon/server_reply.c \
	daemon/server_report.c \
	daemon/server_resume.c \
	daemon/server_pressure.c \
	daemon/server_publish.c \
	daemon/server_publish.h \
	daemon/server_publish_answer.c \
	daemon/server_publish_commit.c \
	daemon/server_publish_doubt.c \
	daemon/server_publish_fd.c \
	daemon/server_publish_impl.h \
	daemon/server_publish_parse.c \
	daemon/server_request.c \
	daemon/server_room.c \
	daemon/server_rule.h \
	daemon/server_rules.c \
	daemon/server_segments.c \
	daemon/server_segments.h \
	daemon/server_share.c \
	daemon/server_shrink.c \
	daemon/server_spare.c \
	daemon/server_storage.c \
	daemon/server_storage.h \
	daemon/settings.c \
	daemon/settings.h \
	daemon/systemd.c \
	daemon/systemd.h \
	daemon/worker.c \
	daemon/worker.h \
	$(NULL)
if HAVE_LIBURING
daemon_libdaemon_la_SOURCES += daemon/loop_uring.c
else
daemon_libdaemon_la_SOURCES += daemon/loop_uring_none.c
endif
if HAVE_NUMA
daemon_libdaemon_la_SOURCES += daemon/numa.c
else
daemon_libdaemon_la_SOURCES += daemon/numa_none.c
endif
daemon_libdaemon_la_CPPFLAGS = \
	$(AM_CPPFLAGS) $(INIH_CFLAGS) $(LIBURING_CFLAGS) $(NUMA_CFLAGS)
daemon_libdaemon_la_LIBADD = \
	lib/libcore.la \
	$(INIH_LIBS) \
	$(LIBURING_LIBS) \
	$(NUMA_LIBS) \
	$(NULL)

sbin_PROGRAMS += daemon/tarnd
daemon_tarnd_SOURCES = daemon/main.c
daemon_tarnd_LDADD = daemon/libdaemon.la
