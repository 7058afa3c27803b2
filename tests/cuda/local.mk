# GPUs, with a stand-in for the driver: a machine without one has all of these.
CUDA_TESTS = \
	tests/cuda/asleep \
	tests/cuda/attack \
	tests/cuda/beside \
	tests/cuda/device \
	tests/cuda/device_files \
	tests/cuda/memory \
	tests/cuda/publish \
	tests/cuda/register \
	tests/cuda/ways \
	$(NULL)
check_PROGRAMS += $(CUDA_TESTS)
TESTS += $(CUDA_TESTS)
tests_cuda_asleep_SOURCES = \
	tests/cuda/asleep.c \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	$(NULL)
tests_cuda_attack_SOURCES = \
	tests/cuda/attack.c \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	$(NULL)
tests_cuda_beside_SOURCES = \
	tests/cuda/beside.c \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	$(NULL)
tests_cuda_device_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/device.c \
	tests/cuda/tensors.c \
	tests/cuda/tensors.h \
	$(NULL)
tests_cuda_device_files_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/device_files.c \
	tests/cuda/tensors.c \
	tests/cuda/tensors.h \
	$(NULL)
tests_cuda_memory_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/memory.c \
	$(NULL)
tests_cuda_publish_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/publish.c \
	$(NULL)
tests_cuda_register_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/register.c \
	$(NULL)
tests_cuda_ways_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/ways.c \
	$(NULL)
if HAVE_CUDA
CUDA_TESTS += tests/cuda/stand_in tests/cuda/stand_in_faults tests/cuda/move
tests_cuda_move_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/device_memory.c \
	tests/cuda/device_memory.h \
	tests/cuda/move.c \
	tests/cuda/moves.c \
	tests/cuda/moves.h \
	tests/kit/convert_oracle.c \
	tests/kit/convert_oracle.h \
	$(NULL)
tests_cuda_move_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
tests_cuda_stand_in_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/driver_calls.c \
	tests/cuda/driver_calls.h \
	tests/cuda/stand_in.c \
	$(NULL)
tests_cuda_stand_in_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
tests_cuda_stand_in_faults_SOURCES = \
	tests/cuda/cases.c \
	tests/cuda/cases.h \
	tests/cuda/driver_calls.c \
	tests/cuda/driver_calls.h \
	tests/cuda/stand_in_faults.c \
	$(NULL)
tests_cuda_stand_in_faults_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
endif
# Each case is a program of its own, and has memory that valgrind does not know.
VALGRIND_EXCEPT += $(CUDA_TESTS)

EXTRA_DIST += tests/fakecuda/fakecuda.h
if HAVE_CUDA
check_LTLIBRARIES += tests/fakecuda/libcuda.la
tests_fakecuda_libcuda_la_SOURCES = \
	tests/fakecuda/account.c \
	tests/fakecuda/copies.c \
	tests/fakecuda/devices.c \
	tests/fakecuda/events.c \
	tests/fakecuda/fakecuda.h \
	tests/fakecuda/functions.c \
	tests/fakecuda/host.c \
	tests/fakecuda/kernels.c \
	tests/fakecuda/kernels.h \
	tests/fakecuda/mappings.c \
	tests/fakecuda/memory.c \
	tests/fakecuda/modules.c \
	tests/fakecuda/space.c \
	tests/fakecuda/standin.h \
	tests/fakecuda/streams.c \
	$(NULL)
tests_fakecuda_libcuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CFLAGS)
# Its functions are for others.
tests_fakecuda_libcuda_la_CFLAGS = \
	$(AM_CFLAGS) \
	-ffp-contract=off \
	-fvisibility=default \
	$(NULL)
tests_fakecuda_libcuda_la_LDFLAGS = \
	$(AM_LDFLAGS) \
	-version-info 1:0:0 \
	-rpath /nowhere \
	$(NULL)
endif
