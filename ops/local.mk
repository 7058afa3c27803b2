# libtarnops: operations on tensors. Built where there is a BLAS, and linked by
# nobody who only shares tensors.
#
#	dtype      kinds of dtypes, where two of them meet, numbers
#	result     operands and destinations
#	loops      one nest of loops for all operands; its blocks, one after the
#		other or on several threads
#	rows       whole rows, some at once, as they lie or packed
#	kernels    what is done to a run of elements: one table of operations and
#		dtypes, compiled for each generation of processors
#	blas       products of two matrices in memory, by a BLAS that is loaded when
#		it is first needed; product: stacks of them
#	matmul     those, and linear
#	attention  in blocks; conv and pool by windows
#	threads    the pool
#	nn         module trees

if HAVE_BLAS
lib_LTLIBRARIES += ops/libtarnops.la
pkgconfig_DATA += ops/tarnops.pc
tarninclude_HEADERS += \
	ops/include/tarn/nn.h \
	ops/include/tarn/ops.h \
	$(NULL)

noinst_LTLIBRARIES += ops/libkernels.la
ops_libkernels_la_SOURCES = \
	ops/kernels.h \
	ops/kernels_avx2.c \
	ops/kernels_avx512.c \
	ops/kernels_c.c \
	ops/kernels_all.h \
	ops/kernels_dots.h \
	ops/kernels_random.h \
	ops/kernels_rows.h \
	ops/kernels_types.h \
	ops/kernels_type.h \
	$(NULL)
ops_libkernels_la_CFLAGS = \
	$(AM_CFLAGS) $(TARN_VECTOR_CFLAGS) $(TARN_MATH_CFLAGS)

ops_libtarnops_la_SOURCES = \
	ops/along.c \
	ops/attention.c \
	ops/blas.c \
	ops/blas.h \
	ops/blas_load.c \
	ops/blas_load.h \
	ops/block.c \
	ops/block.h \
	ops/conv.c \
	ops/dtype.c \
	ops/dtype.h \
	ops/elementwise.c \
	ops/fold.c \
	ops/join.c \
	ops/kernels.c \
	ops/loops.c \
	ops/loops.h \
	ops/mask.c \
	ops/matmul.c \
	ops/nn/convert.c \
	ops/nn/count.c \
	ops/nn/inout.c \
	ops/nn/names.c \
	ops/nn/open.c \
	ops/nn/set.c \
	ops/nn/state.c \
	ops/nn/tree.c \
	ops/nn/tree.h \
	ops/pool.c \
	ops/product.c \
	ops/product.h \
	ops/random.c \
	ops/reduce.c \
	ops/result.c \
	ops/result.h \
	ops/rows.c \
	ops/rows.h \
	ops/select.c \
	ops/select.h \
	ops/sort.c \
	ops/threads.c \
	ops/threads.h \
	ops/windows.h \
	$(NULL)
ops_libtarnops_la_CPPFLAGS = \
	$(AM_CPPFLAGS) \
	-DBLAS_SONAME='"$(BLAS_SONAME)"' \
	$(NULL)
ops_libtarnops_la_LIBADD = \
	lib/libtarn.la \
	lib/libmove.la \
	ops/libkernels.la \
	base/libbase.la \
	-lm \
	$(NULL)
# A bundle's has no version, as libtarn, which lies beside it.
if BUNDLE
LIBTARNOPS_VERSION = -avoid-version -Wl,-rpath,'$$ORIGIN'
else
LIBTARNOPS_VERSION = $(LIBTARN_VERSION)
endif
ops_libtarnops_la_LDFLAGS = \
	$(AM_LDFLAGS) \
	$(LIBTARNOPS_VERSION) \
	-Wl,--version-script=$(top_srcdir)/ops/libtarnops.map \
	-Wl,-z,relro,-z,now \
	-Wl,-Bsymbolic-functions \
	$(NULL)
EXTRA_ops_libtarnops_la_DEPENDENCIES = ops/libtarnops.map
endif
EXTRA_DIST += ops/libtarnops.map ops/include/tarn/.clang-format
