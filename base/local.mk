# What every room needs and no room owns: errors, checked sizes, descriptors,
# how much memory is left.

noinst_LTLIBRARIES += base/libbase.la
base_libbase_la_SOURCES = \
	base/single_threaded.h \
	base/cache_size.c \
	base/cache_size.h \
	base/checked.h \
	base/cleanup.h \
	base/clock.h \
	base/cpus.c \
	base/cpus.h \
	base/digest.c \
	base/digest.h \
	base/fail.c \
	base/fail.h \
	base/fd.c \
	base/fd.h \
	base/file_limit.h \
	base/headroom.c \
	base/headroom.h \
	base/headroom_cgroup.c \
	base/headroom_internal.h \
	base/huge_mapped.c \
	base/huge_mapped.h \
	base/huge_reserve.c \
	base/huge_reserve.h \
	base/shmem_huge.c \
	base/shmem_huge.h \
	base/identity.c \
	base/identity.h \
	base/memory_policy.c \
	base/memory_policy.h \
	base/nodes.c \
	base/nodes.h \
	base/overflow_uid.c \
	base/overflow_uid.h \
	base/page.h \
	base/pci_node.c \
	base/pci_node.h \
	base/pid_namespace.h \
	base/policy_calls.h \
	base/populate.c \
	base/populate.h \
	base/std_fds.h \
	$(NULL)
if HAVE_NUMA
base_libbase_la_SOURCES += base/policy_calls_numa.c
else
base_libbase_la_SOURCES += base/policy_calls_none.c
endif
base_libbase_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) $(NUMA_CFLAGS)
base_libbase_la_LIBADD = $(NUMA_LIBS)
