# Operations on tensors: where there is a BLAS. These link the shared libraries,
# as everybody else does.
if HAVE_BLAS
NN_TESTS = \
	tests/ops/nn \
	tests/ops/nn_device \
	tests/ops/nn_memory \
	tests/ops/nn_refresh \
	tests/ops/nn_threads \
	$(NULL)
check_PROGRAMS += $(NN_TESTS)
TESTS += $(NN_TESTS)
# Daemons, publishers that are killed, and memory that valgrind does not know, or
# that is its own; thousands of products, which take it minutes.
VALGRIND_EXCEPT += \
	tests/ops/attention \
	tests/ops/destinations \
	tests/ops/nn_device \
	tests/ops/nn_memory \
	tests/ops/nn_refresh \
	tests/ops/nn_threads \
	tests/ops/products \
	$(NULL)

OPS_LIBS = tests/libkit.la ops/libtarnops.la lib/libtarn.la
tests_ops_nn_SOURCES = tests/ops/nn.c tests/ops/nn_kit.h
tests_ops_nn_LDADD = $(OPS_LIBS)
tests_ops_nn_device_SOURCES = \
	tests/ops/nn_device.c \
	tests/ops/nn_kit.h \
	tests/ops/nn_sets.c \
	tests/ops/nn_sets.h \
	$(NULL)
tests_ops_nn_device_LDADD = $(OPS_LIBS)
tests_ops_nn_memory_SOURCES = tests/ops/nn_kit.h tests/ops/nn_memory.c
tests_ops_nn_memory_LDADD = $(OPS_LIBS)
tests_ops_nn_refresh_SOURCES = \
	tests/ops/nn_kit.h \
	tests/ops/nn_refresh.c \
	tests/ops/nn_sets.c \
	tests/ops/nn_sets.h \
	$(NULL)
tests_ops_nn_refresh_LDADD = $(OPS_LIBS)
tests_ops_nn_threads_SOURCES = \
	tests/ops/nn_kit.h \
	tests/ops/nn_sets.c \
	tests/ops/nn_sets.h \
	tests/ops/nn_threads.c \
	$(NULL)
tests_ops_nn_threads_LDADD = $(OPS_LIBS)

# Operations, as programs that link libtarnops use them.
OPS_TESTS = \
	tests/ops/along \
	tests/ops/attention \
	tests/ops/corners \
	tests/ops/destinations \
	tests/ops/join \
	tests/ops/products \
	tests/ops/random \
	tests/ops/select \
	tests/ops/threads \
	tests/ops/windows \
	$(NULL)
check_PROGRAMS += $(OPS_TESTS)
TESTS += $(OPS_TESTS)
tests_ops_along_SOURCES = \
	tests/ops/along.c \
	tests/ops/tensors.c \
	tests/ops/tensors.h \
	$(NULL)
tests_ops_along_LDADD = $(OPS_LIBS) -lm
tests_ops_attention_SOURCES = \
	tests/ops/attention.c \
	tests/ops/views.c \
	tests/ops/views.h \
	$(NULL)
tests_ops_attention_LDADD = $(OPS_LIBS) -lm
tests_ops_corners_SOURCES = \
	tests/ops/corners.c \
	tests/ops/tensors.c \
	tests/ops/tensors.h \
	$(NULL)
tests_ops_corners_LDADD = $(OPS_LIBS) -lm
tests_ops_destinations_SOURCES = \
	tests/ops/destinations.c \
	tests/ops/nn_kit.h \
	tests/ops/nn_sets.c \
	tests/ops/nn_sets.h \
	tests/ops/operations.c \
	tests/ops/operations.h \
	tests/ops/tensors.c \
	tests/ops/tensors.h \
	$(NULL)
tests_ops_destinations_LDADD = $(OPS_LIBS) -lm
tests_ops_join_SOURCES = \
	tests/ops/join.c \
	tests/ops/tensors.c \
	tests/ops/tensors.h \
	$(NULL)
tests_ops_join_LDADD = $(OPS_LIBS) -lm
tests_ops_products_SOURCES = \
	tests/ops/products.c \
	tests/ops/views.c \
	tests/ops/views.h \
	$(NULL)
tests_ops_products_LDADD = $(OPS_LIBS) -lm
tests_ops_random_SOURCES = \
	tests/ops/random.c \
	tests/ops/tensors.c \
	tests/ops/tensors.h \
	$(NULL)
tests_ops_random_LDADD = ops/libkernels.la $(OPS_LIBS) -lm
tests_ops_select_SOURCES = \
	tests/ops/select.c \
	tests/ops/tensors.c \
	tests/ops/tensors.h \
	$(NULL)
tests_ops_select_LDADD = $(OPS_LIBS) -lm
tests_ops_threads_SOURCES = ops/threads.c ops/threads.h tests/ops/threads.c
tests_ops_threads_LDADD = tests/libkit.la lib/libtarn.la base/libbase.la
tests_ops_windows_SOURCES = \
	tests/ops/views.c \
	tests/ops/views.h \
	tests/ops/windows.c \
	$(NULL)
tests_ops_windows_LDADD = $(OPS_LIBS) -lm
endif

# Each skips itself where the programs were not built.
OPS_SCRIPT_TESTS = \
	tests/ops/embed.py \
	tests/ops/networks.py \
	tests/ops/vad.py \
	$(NULL)
dist_check_SCRIPTS += $(OPS_SCRIPT_TESTS)
TESTS += $(OPS_SCRIPT_TESTS)
