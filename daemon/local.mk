# tarnd: owns the pools, serves the socket, streams files in.

# The parts that stand alone; the white-box tests link them.
noinst_LTLIBRARIES += daemon/libdaemon.la
daemon_libdaemon_la_SOURCES = \
	daemon/config/conf.c \
	daemon/config/conf.h \
	daemon/config/conf_internal.h \
	daemon/config/conf_pool.c \
	daemon/config/conf_print.c \
	daemon/config/options.c \
	daemon/config/options.h \
	daemon/config/quota_limits.c \
	daemon/config/quota_limits.h \
	daemon/config/settings.c \
	daemon/config/settings.h \
	daemon/keeper/clients.c \
	daemon/keeper/domains.c \
	daemon/keeper/dropper.c \
	daemon/keeper/fork.c \
	daemon/keeper/held_fds.c \
	daemon/keeper/inherited.c \
	daemon/keeper/inherited.h \
	daemon/keeper/keeper.c \
	daemon/keeper/keeper.h \
	daemon/keeper/listener.c \
	daemon/keeper/listener.h \
	daemon/keeper/listener_folder.c \
	daemon/keeper/listener_folder.h \
	daemon/keeper/loader_pipes.c \
	daemon/keeper/numa.h \
	daemon/keeper/oom.c \
	daemon/keeper/oom.h \
	daemon/keeper/populate.c \
	daemon/keeper/populate.h \
	daemon/keeper/reload.c \
	daemon/keeper/segment_gaps.c \
	daemon/keeper/segments.c \
	daemon/keeper/server_process.c \
	daemon/keeper/server_requests.c \
	daemon/keeper/state.h \
	daemon/keeper/state_read.c \
	daemon/keeper/state_records.h \
	daemon/keeper/state_write.c \
	daemon/keeper/systemd.c \
	daemon/keeper/systemd.h \
	daemon/keeper/upgrade.c \
	daemon/loader/file.c \
	daemon/loader/header.c \
	daemon/loader/internal.h \
	daemon/loader/job.c \
	daemon/loader/loader.c \
	daemon/loader/pages.c \
	daemon/loader/target.c \
	daemon/loader/writers.c \
	daemon/loop/closer.c \
	daemon/loop/closer.h \
	daemon/loop/closer_end.c \
	daemon/loop/closer_end.h \
	daemon/loop/deadline.c \
	daemon/loop/deadline.h \
	daemon/loop/fd_store.c \
	daemon/loop/fd_store.h \
	daemon/loop/log.c \
	daemon/loop/log.h \
	daemon/loop/log_budget.c \
	daemon/loop/log_budget.h \
	daemon/loop/loop.c \
	daemon/loop/loop.h \
	daemon/loop/loop_epoll.c \
	daemon/loop/loop_internal.h \
	daemon/loop/nudge.c \
	daemon/loop/nudge.h \
	daemon/loop/psi.c \
	daemon/loop/psi.h \
	daemon/loop/waker.c \
	daemon/loop/waker.h \
	daemon/loop/worker.c \
	daemon/loop/worker.h \
	daemon/messages.h \
	daemon/server/account/account.c \
	daemon/server/account/account.h \
	daemon/server/account/account_audit.c \
	daemon/server/account/account_names.c \
	daemon/server/account/find_domain.c \
	daemon/server/account/quantum.c \
	daemon/server/between_turns.c \
	daemon/server/channel/channel.c \
	daemon/server/channel/channel.h \
	daemon/server/channel/ended.c \
	daemon/server/channel/internal.h \
	daemon/server/channel/reap_dead.c \
	daemon/server/client/arrival.c \
	daemon/server/client/client.c \
	daemon/server/client/client.h \
	daemon/server/client/pool_access.c \
	daemon/server/client/process.c \
	daemon/server/client/request.c \
	daemon/server/client/resume.c \
	daemon/server/domain.c \
	daemon/server/domain.h \
	daemon/server/from_keeper.c \
	daemon/server/inspect/report.c \
	daemon/server/inspect/self_check.c \
	daemon/server/load/assign.c \
	daemon/server/load/commit_names.c \
	daemon/server/load/end.c \
	daemon/server/load/find.c \
	daemon/server/load/internal.h \
	daemon/server/load/load.c \
	daemon/server/load/load.h \
	daemon/server/load/loader.c \
	daemon/server/load/loader.h \
	daemon/server/load/loader_hang.c \
	daemon/server/load/parse.c \
	daemon/server/load/progress.c \
	daemon/server/load/share.c \
	daemon/server/load/start.c \
	daemon/server/load/take_memory.c \
	daemon/server/load/uncached.c \
	daemon/server/memory/alloc.c \
	daemon/server/memory/alloc.h \
	daemon/server/memory/old_segments.c \
	daemon/server/memory/segments.c \
	daemon/server/memory/segments.h \
	daemon/server/memory/trim.c \
	daemon/server/publish/answer.c \
	daemon/server/publish/commit.c \
	daemon/server/publish/fd.c \
	daemon/server/publish/internal.h \
	daemon/server/publish/names.c \
	daemon/server/publish/names.h \
	daemon/server/publish/parse.c \
	daemon/server/publish/publish.c \
	daemon/server/publish/publish.h \
	daemon/server/publish/remove.c \
	daemon/server/rebuild.c \
	daemon/server/send/completion.c \
	daemon/server/send/completion.h \
	daemon/server/send/fd_reserve.c \
	daemon/server/send/store_fd.c \
	daemon/server/send/reply.c \
	daemon/server/send/to_keeper.c \
	daemon/server/server.c \
	daemon/server/server.h \
	daemon/server/storage/cache.c \
	daemon/server/storage/cache.h \
	daemon/server/storage/cache_evict.c \
	daemon/server/storage/collect.c \
	daemon/server/storage/fit_quota.c \
	daemon/server/storage/kinds.c \
	daemon/server/storage/lease_pages.c \
	daemon/server/storage/memory_queue.c \
	daemon/server/storage/memory_queue.h \
	daemon/server/storage/name_expiry.c \
	daemon/server/storage/own_memfd.c \
	daemon/server/storage/own_memfd.h \
	daemon/server/storage/pressure_relief.c \
	daemon/server/storage/pressure_relief.h \
	daemon/server/storage/reclaim.c \
	daemon/server/storage/storage.c \
	daemon/server/storage/storage.h \
	$(NULL)
if HAVE_LIBURING
daemon_libdaemon_la_SOURCES += daemon/loop/loop_uring.c
else
daemon_libdaemon_la_SOURCES += daemon/loop/loop_uring_none.c
endif
if HAVE_NUMA
daemon_libdaemon_la_SOURCES += daemon/keeper/numa.c
else
daemon_libdaemon_la_SOURCES += daemon/keeper/numa_none.c
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
