# Programs for a machine with a GPU, and its driver: tests/gpu-check runs them.
EXTRA_DIST += tests/gpu-check
if HAVE_CUDA
check_PROGRAMS += tests/gpu/link tests/gpu/moves tests/gpu/probe \
	tests/gpu/sets tests/gpu/tensors
tests_gpu_link_SOURCES = \
	tests/gpu/link.c \
	tests/gpu/real.c \
	tests/gpu/real.h \
	$(NULL)
tests_gpu_link_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
tests_gpu_moves_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/device_memory.c \
	tests/cuda/device_memory.h \
	tests/cuda/moves.c \
	tests/cuda/moves.h \
	tests/gpu/moves.c \
	tests/gpu/real.c \
	tests/gpu/real.h \
	tests/kit/convert_oracle.c \
	tests/kit/convert_oracle.h \
	$(NULL)
tests_gpu_moves_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
tests_gpu_probe_SOURCES = \
	tests/gpu/probe.c \
	tests/gpu/real.c \
	tests/gpu/real.h \
	$(NULL)
tests_gpu_probe_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
tests_gpu_sets_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/gpu/real.c \
	tests/gpu/real.h \
	tests/gpu/sets.c \
	tests/set/refits.c \
	tests/set/refits.h \
	tests/set/refits_ends.c \
	tests/set/refits_kit.c \
	tests/set/refits_shared.c \
	$(NULL)
tests_gpu_sets_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
tests_gpu_tensors_SOURCES = \
	tests/gpu/real.c \
	tests/gpu/real.h \
	tests/gpu/tensors.c \
	$(NULL)
tests_gpu_tensors_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
endif
