# A minute of kills; by hand for longer: tests/soak/soak --seconds N.
SOAK_TESTS = tests/soak/channel_soak tests/soak/channel_storm
check_PROGRAMS += $(SOAK_TESTS) tests/soak/soak
TESTS += $(SOAK_TESTS)
VALGRIND_EXCEPT += $(SOAK_TESTS)

tests_soak_channel_soak_SOURCES = \
	tests/soak/channel_soak.c \
	tests/soak/channel_soak.h \
	tests/soak/channel_soak_worker.c \
	$(NULL)
tests_soak_soak_SOURCES = \
	tests/soak/soak.c \
	tests/soak/soak.h \
	tests/soak/words.c \
	tests/soak/worker.c \
	$(NULL)
