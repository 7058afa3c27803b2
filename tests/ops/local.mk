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
# that is its own.
VALGRIND_EXCEPT += \
	tests/ops/nn_device \
	tests/ops/nn_memory \
	tests/ops/nn_refresh \
	tests/ops/nn_threads \
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
endif
