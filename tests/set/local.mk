# Sets: their fields and notes, digests, and new versions of them.
SET_TESTS = \
	tests/set/digest \
	tests/set/fields \
	$(NULL)
check_PROGRAMS += $(SET_TESTS)
TESTS += $(SET_TESTS)
tests_set_digest_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/set/digest.c \
	$(NULL)
# Cases are programs of their own, with memory that valgrind does not know.
VALGRIND_EXCEPT += tests/set/digest
