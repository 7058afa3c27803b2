# Programs for a machine with a GPU, and its driver: tests/gpu-check runs them.
EXTRA_DIST += tests/gpu-check
if HAVE_CUDA
check_PROGRAMS += tests/gpu/probe tests/gpu/tensors
tests_gpu_probe_SOURCES = \
	tests/gpu/probe.c \
	tests/gpu/real.c \
	tests/gpu/real.h \
	$(NULL)
tests_gpu_probe_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
tests_gpu_tensors_SOURCES = \
	tests/gpu/real.c \
	tests/gpu/real.h \
	tests/gpu/tensors.c \
	$(NULL)
tests_gpu_tensors_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
endif
