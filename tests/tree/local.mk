TREE_TESTS = tests/tree/bail
TREE_SCRIPT_TESTS = \
	tests/tree/examples.sh \
	tests/tree/format.sh \
	tests/tree/harness.sh \
	tests/tree/headers.sh \
	tests/tree/help.sh \
	tests/tree/man3.sh \
	tests/tree/rooms.sh \
	tests/tree/symbols.sh \
	tests/tree/units.sh \
	tests/tree/words.sh \
	$(NULL)
check_PROGRAMS += $(TREE_TESTS)
dist_check_SCRIPTS += $(TREE_SCRIPT_TESTS)
TESTS += $(TREE_TESTS) $(TREE_SCRIPT_TESTS)
