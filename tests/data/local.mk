# Data: order, mixing, sources, windows and packing, and the dataset of them all.
DATA_TESTS = \
	tests/data/mixture \
	tests/data/order \
	tests/data/order_quality \
	tests/data/sources \
	$(NULL)
check_PROGRAMS += $(DATA_TESTS)
TESTS += $(DATA_TESTS)
DATA_CORPUS = tests/data/corpus.c tests/data/corpus.h
tests_data_sources_SOURCES = $(DATA_CORPUS) tests/data/sources.c
