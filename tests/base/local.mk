BASE_TESTS = \
	tests/base/cache_size \
	tests/base/close_from \
	tests/base/cpus \
	tests/base/headroom \
	tests/base/headroom_cgroup \
	tests/base/huge_pages \
	tests/base/nodes \
	tests/base/pci_node \
	$(NULL)
check_PROGRAMS += $(BASE_TESTS)
TESTS += $(BASE_TESTS)

tests_base_cache_size_LDADD = $(DAEMON_LIBS)
tests_base_close_from_LDADD = $(DAEMON_LIBS)
tests_base_headroom_LDADD = $(DAEMON_LIBS)
tests_base_headroom_cgroup_LDADD = $(DAEMON_LIBS)
tests_base_huge_pages_LDADD = $(DAEMON_LIBS)
tests_base_nodes_LDADD = $(DAEMON_LIBS)
tests_base_pci_node_LDADD = $(DAEMON_LIBS)
