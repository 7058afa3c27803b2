CHANNEL_TESTS = \
	tests/channel/adaptive_lock \
	tests/channel/broadcast \
	tests/channel/calls \
	tests/channel/channel \
	tests/channel/device \
	tests/channel/fd \
	tests/channel/fork \
	tests/channel/handles \
	tests/channel/hostile \
	tests/channel/late \
	tests/channel/leave \
	tests/channel/names \
	tests/channel/pages \
	tests/channel/records \
	tests/channel/restart \
	tests/channel/send \
	tests/channel/server_channel \
	tests/channel/server_channel_end \
	tests/channel/server_channel_hostile \
	tests/channel/server_channel_search \
	tests/channel/threads \
	$(NULL)
check_PROGRAMS += $(CHANNEL_TESTS)
TESTS += $(CHANNEL_TESTS)
VALGRIND_EXCEPT += tests/channel/fork tests/channel/threads

tests_channel_fd_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=ring_ready \
	-Wl,--wrap=ring_receive \
	-Wl,--wrap=syscall \
	$(NULL)
tests_channel_pages_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=headroom_check \
	-Wl,--wrap=calloc \
	$(NULL)
tests_channel_server_channel_LDADD = $(DAEMON_LIBS)
tests_channel_server_channel_end_LDADD = $(DAEMON_LIBS)
tests_channel_server_channel_hostile_LDADD = $(DAEMON_LIBS)
tests_channel_server_channel_search_LDADD = $(DAEMON_LIBS)
tests_channel_server_channel_search_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=lease_batch_search \
	-Wl,--wrap=channel_search \
	$(NULL)
