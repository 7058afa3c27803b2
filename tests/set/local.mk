# Sets: their fields and notes, digests, and new versions of them.
SET_TESTS = \
	tests/set/fields \
	$(NULL)
check_PROGRAMS += $(SET_TESTS)
TESTS += $(SET_TESTS)
