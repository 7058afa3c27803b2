# Data: order, mixing, sources, windows and packing, and the dataset of them all.
DATA_TESTS = \
	tests/data/columns \
	tests/data/elastic \
	tests/data/loader \
	tests/data/loader_errors \
	tests/data/loader_fork \
	tests/data/loader_kills \
	tests/data/loader_others \
	tests/data/loader_shared \
	tests/data/mixture \
	tests/data/order \
	tests/data/order_quality \
	tests/data/plan \
	tests/data/records \
	tests/data/records_hostile \
	tests/data/side_cars \
	tests/data/sources \
	tests/data/windows \
	$(NULL)
check_PROGRAMS += $(DATA_TESTS)
TESTS += $(DATA_TESTS)
DATA_CORPUS = tests/data/corpus.c tests/data/corpus.h
DATA_TARS = tests/data/tars.c tests/data/tars.h
tests_data_columns_SOURCES = \
	$(DATA_CORPUS) $(DATA_TARS) tests/data/columns.c
tests_data_records_SOURCES = \
	$(DATA_CORPUS) $(DATA_TARS) tests/data/records.c
tests_data_records_hostile_SOURCES = \
	$(DATA_CORPUS) $(DATA_TARS) tests/data/records_hostile.c
tests_data_side_cars_SOURCES = $(DATA_CORPUS) tests/data/side_cars.c
tests_data_sources_SOURCES = $(DATA_CORPUS) tests/data/sources.c
DATA_SETS = $(DATA_CORPUS) tests/data/datasets.c tests/data/datasets.h
tests_data_elastic_SOURCES = $(DATA_SETS) tests/data/elastic.c
tests_data_windows_SOURCES = $(DATA_SETS) tests/data/windows.c
DATA_BATCHES = $(DATA_SETS) tests/data/batches.c tests/data/batches.h
tests_data_loader_SOURCES = $(DATA_BATCHES) tests/data/loader.c
tests_data_loader_fork_SOURCES = $(DATA_BATCHES) tests/data/loader_fork.c
DATA_RANKS = $(DATA_BATCHES) tests/data/ranks.c tests/data/ranks.h
tests_data_loader_shared_SOURCES = $(DATA_RANKS) tests/data/loader_shared.c
tests_data_loader_others_SOURCES = $(DATA_RANKS) tests/data/loader_others.c
tests_data_loader_kills_SOURCES = $(DATA_RANKS) tests/data/loader_kills.c
tests_data_loader_errors_SOURCES = \
	$(DATA_BATCHES) \
	tests/data/loader_errors.c \
	tests/kit/fault_engine.c \
	tests/kit/fault_engine.h \
	$(NULL)
tests_data_loader_errors_LDFLAGS = \
	$(AM_LDFLAGS) \
	-Wl,--wrap=fd_pread \
	-Wl,--wrap=tarn_io_new \
	$(NULL)

# A child of fork has what a thread of its parent had, which nobody can free there;
# and valgrind has descriptors of its own, where there are few.
VALGRIND_EXCEPT += tests/data/loader_fork tests/data/records
