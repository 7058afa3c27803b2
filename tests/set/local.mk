# Sets: their fields and notes, digests, and new versions of them.
SET_TESTS = \
	tests/set/digest \
	tests/set/digests \
	tests/set/fields \
	tests/set/patches \
	tests/set/patches_edges \
	tests/set/patches_killed \
	tests/set/patches_odd \
	tests/set/patches_short \
	tests/set/patches_threads \
	tests/set/patches_used \
	tests/set/refit \
	tests/set/refit_device \
	$(NULL)
check_PROGRAMS += $(SET_TESTS)
TESTS += $(SET_TESTS)
tests_set_digest_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/set/digest.c \
	$(NULL)
tests_set_patches_edges_SOURCES = \
	tests/set/patches_edges.c \
	tests/set/patches_kit.c \
	tests/set/patches_kit.h \
	$(NULL)
tests_set_patches_short_SOURCES = \
	tests/set/patches_kit.c \
	tests/set/patches_kit.h \
	tests/set/patches_short.c \
	$(NULL)
tests_set_refit_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/set/refit.c \
	tests/set/refits.c \
	tests/set/refits.h \
	tests/set/refits_ends.c \
	tests/set/refits_kit.c \
	tests/set/refits_shared.c \
	$(NULL)
tests_set_refit_device_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/set/refit_device.c \
	tests/set/refits.c \
	tests/set/refits.h \
	tests/set/refits_ends.c \
	tests/set/refits_kit.c \
	tests/set/refits_shared.c \
	$(NULL)
# Cases are programs of their own, with memory that valgrind does not know.
VALGRIND_EXCEPT += tests/set/digest tests/set/refit tests/set/refit_device
# Under valgrind descriptors that a message brings are not limited.
VALGRIND_EXCEPT += tests/set/patches_short
