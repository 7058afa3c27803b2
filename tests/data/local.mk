# Data: order, mixing, sources, windows and packing, and the dataset of them all.
DATA_TESTS = \
	tests/data/mixture \
	tests/data/order \
	tests/data/order_quality \
	$(NULL)
check_PROGRAMS += $(DATA_TESTS)
TESTS += $(DATA_TESTS)
