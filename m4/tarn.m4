# SPDX-License-Identifier: MIT
#
# The questions that configure asks, one macro each.

# TARN_TRY_FLAGS(VARIABLE, FLAGS)
# -------------------------------
# Adds those that the compiler knows.
AC_DEFUN([TARN_TRY_FLAGS], [
tarn_save_cflags=$CFLAGS
for tarn_flag in $2; do
	AC_MSG_CHECKING([whether $CC takes $tarn_flag])
	CFLAGS="$tarn_save_cflags -Werror $tarn_flag"
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM],
		[$1="$$1 $tarn_flag"
		AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no])])
done
CFLAGS=$tarn_save_cflags
])

# TARN_COMPILER_FLAGS
# -------------------
# Warnings that the whole tree is clean under, and hidden visibility.
AC_DEFUN([TARN_COMPILER_FLAGS], [
TARN_CFLAGS="-std=gnu17 -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes"
TARN_CFLAGS="$TARN_CFLAGS -Wstrict-prototypes -Wpointer-arith -Wno-unused-parameter"
TARN_CFLAGS="$TARN_CFLAGS -fvisibility=hidden -fno-strict-aliasing -pthread"
# A layout is 12 numbers twice: a loop over a few of them is over before a call
# of memset or memcpy would have begun. And our own calls are not for others
# to interpose.
# Numbers are the same on every processor: a multiplication and an addition are
# not fused where one instruction could do both, as gcc does unasked.
TARN_TRY_FLAGS([TARN_CFLAGS],
	[-fno-tree-loop-distribute-patterns -fno-semantic-interposition \
	-ffp-contract=off])
AC_ARG_ENABLE([werror],
	[AS_HELP_STRING([--enable-werror], [treat warnings as errors])])
AS_IF([test "x$enable_werror" = xyes], [TARN_CFLAGS="$TARN_CFLAGS -Werror"])
AC_SUBST([TARN_CFLAGS])
])

# TARN_VECTOR_FLAGS
# -----------------
# For the loops that convert elements (lib/number/convert_kernels.h): vectors of
# them at -O2 too, and no care for floating traps, which nobody sets. What the
# compiler does not know is left out.
AC_DEFUN([TARN_VECTOR_FLAGS], [
TARN_VECTOR_CFLAGS=
TARN_TRY_FLAGS([TARN_VECTOR_CFLAGS],
	[-ftree-vectorize -fvect-cost-model=dynamic -fno-trapping-math])
AC_SUBST([TARN_VECTOR_CFLAGS])
])

# TARN_SANITIZERS
# ---------------
AC_DEFUN([TARN_SANITIZERS], [
AC_ARG_ENABLE([sanitizers],
	[AS_HELP_STRING([--enable-sanitizers@<:@=LIST@:>@],
		[build with AddressSanitizer and UBSan, or with LIST, for example thread])],
	[], [enable_sanitizers=no])
AS_CASE([$enable_sanitizers],
	[no], [],
	[yes], [tarn_sanitize=address,undefined],
	[tarn_sanitize=$enable_sanitizers])
AS_IF([test "x$enable_sanitizers" != xno], [
	TARN_CFLAGS="$TARN_CFLAGS -fsanitize=$tarn_sanitize -fno-omit-frame-pointer"
	TARN_CFLAGS="$TARN_CFLAGS -fno-sanitize-recover=all"
	# gcc says of every fence that ThreadSanitizer does not follow it.
	AS_CASE([$tarn_sanitize],
		[*thread*], [TARN_CFLAGS="$TARN_CFLAGS -Wno-tsan"])
	TARN_LDFLAGS="$TARN_LDFLAGS -fsanitize=$tarn_sanitize"
])
AC_SUBST([TARN_LDFLAGS])
AM_CONDITIONAL([SANITIZERS], [test "x$enable_sanitizers" != xno])
])

# TARN_FUZZERS
# ------------
# Fuzzers are built with everything that they run counted and watched.
AC_DEFUN([TARN_FUZZERS], [
AC_ARG_ENABLE([fuzzers],
	[AS_HELP_STRING([--enable-fuzzers],
		[build tests/fuzz as libFuzzers too, with sanitizers (CC=clang)])],
	[], [enable_fuzzers=no])
AS_IF([test "x$enable_fuzzers" != xno], [
	tarn_sanitize=address,undefined
	TARN_CFLAGS="$TARN_CFLAGS -fsanitize=fuzzer-no-link,$tarn_sanitize"
	TARN_CFLAGS="$TARN_CFLAGS -fno-omit-frame-pointer"
	TARN_CFLAGS="$TARN_CFLAGS -fno-sanitize-recover=all"
	TARN_LDFLAGS="$TARN_LDFLAGS -fsanitize=$tarn_sanitize"
	AC_MSG_CHECKING([whether $CC links libFuzzer])
	tarn_save_cflags=$CFLAGS
	CFLAGS="$CFLAGS -fsanitize=fuzzer,$tarn_sanitize"
	AC_LINK_IFELSE([AC_LANG_SOURCE([[#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{ return data && size ? 0 : 0; }]])],
		[AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no])
		AC_MSG_ERROR([--enable-fuzzers was asked for, but $CC has no
libFuzzer; install clang and configure with CC=clang])])
	CFLAGS=$tarn_save_cflags
])
AM_CONDITIONAL([FUZZERS], [test "x$enable_fuzzers" != xno])
])

# TARN_FEATURE(NAME, WHAT, PKG-VARIABLE, PKG-SPEC, DEBIAN-PACKAGE)
# ----------------------------------------------------------------
# --with-NAME=auto|yes|no. auto: used if there; yes: missing is an error;
# no: never looked for. Sets HAVE_<PKG-VARIABLE> for make, so that callers
# choose between two files behind one header and carry no #ifdef.
AC_DEFUN([TARN_FEATURE], [
AC_ARG_WITH([$1],
	[AS_HELP_STRING([--with-$1@<:@=auto|yes|no@:>@], [$2 (auto)])],
	[], [with_$1=auto])
tarn_have_$1=no
AS_IF([test "x$with_$1" != xno], [
	PKG_CHECK_MODULES([$3], [$4], [tarn_have_$1=yes], [
		AS_IF([test "x$with_$1" = xyes], [AC_MSG_ERROR(
			[--with-$1 was asked for, but $4 was not found; install $5])])
	])
])
AM_CONDITIONAL([HAVE_$3], [test "x$tarn_have_$1" = xyes])
AS_IF([test "x$tarn_have_$1" = xyes],
	[tarn_summary_$1="yes"],
	[AS_IF([test "x$with_$1" = xno], [tarn_summary_$1="no (switched off)"],
		[tarn_summary_$1="no (install $5)"])])
])

# TARN_BLAS
# ---------
# --with-blas=auto|yes|no|later|PACKAGE, as TARN_FEATURE; the package is one that
# pkg-config knows and that has cblas_sgemm. OpenBLAS comes first. Its name is
# looked up when a product is first wanted; later: any that there is then.
AC_DEFUN([TARN_BLAS], [
AC_ARG_WITH([blas],
	[AS_HELP_STRING([--with-blas@<:@=auto|yes|no|later|PACKAGE@:>@],
		[operations, with the BLAS that pkg-config has as PACKAGE (auto)])],
	[], [with_blas=auto])
tarn_have_blas=no
AS_CASE([$with_blas], [no|later], [tarn_packages=],
	[auto|yes], [tarn_packages="openblas flexiblas cblas mkl-dynamic-lp64-seq blis"],
	[tarn_packages=$with_blas])
for tarn_package in $tarn_packages; do
	AS_IF([test "x$tarn_have_blas" = xyes], [break])
	AC_MSG_CHECKING([for cblas_sgemm in the package $tarn_package])
	BLAS_CFLAGS=`$PKG_CONFIG --cflags $tarn_package 2>/dev/null`
	BLAS_LIBS=`$PKG_CONFIG --libs $tarn_package 2>/dev/null`
	tarn_save_CPPFLAGS=$CPPFLAGS
	tarn_save_LIBS=$LIBS
	CPPFLAGS="$CPPFLAGS $BLAS_CFLAGS"
	LIBS="$BLAS_LIBS $LIBS"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cblas.h>]],
		[[cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, 1, 1, 1,
			1, 0, 1, 0, 1, 0, 0, 1);]])],
		[tarn_have_blas=yes
		tarn_blas_package=$tarn_package
		BLAS_SONAME=`objdump -p conftest$EXEEXT 2>/dev/null |
			$SED -n 's/^ *NEEDED *\(.*\(blas\|blis\|mkl\).*\)/\1/p' |
			$SED 1q`])
	CPPFLAGS=$tarn_save_CPPFLAGS
	LIBS=$tarn_save_LIBS
	AC_MSG_RESULT([$tarn_have_blas])
done
AS_IF([test "x$with_blas" = xlater], [
	tarn_have_blas=yes
	tarn_blas_package="one that is found when it is needed"
])
AC_SUBST([BLAS_CFLAGS])
AC_SUBST([BLAS_LIBS])
AC_SUBST([BLAS_SONAME])
AM_CONDITIONAL([HAVE_BLAS], [test "x$tarn_have_blas" = xyes])
AS_IF([test "x$tarn_have_blas" = xyes],
	[tarn_summary_blas="yes ($tarn_blas_package)"],
	[AS_CASE([$with_blas],
		[no], [tarn_summary_blas="no (switched off)"],
		[auto], [tarn_summary_blas="no (install libopenblas-dev)"],
		[AC_MSG_ERROR([--with-blas=$with_blas was asked for, but there is no cblas_sgemm in $tarn_packages;
install libopenblas-dev])])])
# Vectors of a mathematical function need that nobody reads its errno.
TARN_MATH_CFLAGS=
TARN_TRY_FLAGS([TARN_MATH_CFLAGS], [-fno-math-errno])
AC_SUBST([TARN_MATH_CFLAGS])
])

# TARN_MPI
# --------
# --with-mpi=auto|yes|no|PACKAGE, as TARN_FEATURE; the package is one that
# pkg-config knows, of an MPI of version 3 or newer. Open MPI comes first. A bundle
# has none inside: it would be another one than the job's.
AC_DEFUN([TARN_MPI], [
AC_ARG_WITH([mpi],
	[AS_HELP_STRING([--with-mpi@<:@=auto|yes|no|PACKAGE@:>@],
		[libtarn-mpi, with the MPI that pkg-config has as PACKAGE (auto)])],
	[], [with_mpi=auto])
AS_CASE([$enable_bundle], [""|no], [],
	[AS_IF([test "x$with_mpi" = xauto], [with_mpi=no])])
tarn_have_mpi=no
AS_CASE([$with_mpi], [no], [tarn_packages=],
	[auto|yes], [tarn_packages="ompi-c mpich"],
	[tarn_packages=$with_mpi])
for tarn_package in $tarn_packages; do
	AS_IF([test "x$tarn_have_mpi" = xyes], [break])
	AC_MSG_CHECKING([for MPI_Ibcast in the package $tarn_package])
	MPI_CFLAGS=`$PKG_CONFIG --cflags $tarn_package 2>/dev/null`
	MPI_LIBS=`$PKG_CONFIG --libs $tarn_package 2>/dev/null`
	tarn_save_CPPFLAGS=$CPPFLAGS
	tarn_save_LIBS=$LIBS
	CPPFLAGS="$CPPFLAGS $MPI_CFLAGS"
	LIBS="$MPI_LIBS $LIBS"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],
		[[MPI_Request r;
		MPI_Ibcast(&r, 0, MPI_C_BOOL, 0, MPI_COMM_WORLD, &r);]])],
		[tarn_have_mpi=yes
		tarn_mpi_package=$tarn_package])
	CPPFLAGS=$tarn_save_CPPFLAGS
	LIBS=$tarn_save_LIBS
	AC_MSG_RESULT([$tarn_have_mpi])
done
AC_SUBST([MPI_CFLAGS])
AC_SUBST([MPI_LIBS])
AM_CONDITIONAL([HAVE_MPI], [test "x$tarn_have_mpi" = xyes])
AS_IF([test "x$tarn_have_mpi" = xyes],
	[tarn_summary_mpi="yes ($tarn_mpi_package)"],
	[AS_CASE([$with_mpi],
		[no], [tarn_summary_mpi="no (switched off)"],
		[auto], [tarn_summary_mpi="no (Debian has one as libopenmpi-dev)"],
		[AC_MSG_ERROR([--with-mpi=$with_mpi was asked for, but there is no MPI 3 in $tarn_packages;
Debian has one as libopenmpi-dev, or name its package of pkg-config])])])
])

# TARN_CUDA
# ---------
# --with-cuda=auto|yes|no|FOLDER, as TARN_FEATURE; but the toolkit's header is
# all that is needed, and no package of pkg-config's has it. It is looked for in
# FOLDER, or in $CUDA_HOME, /usr/local/cuda and where the compiler looks.
AC_DEFUN([TARN_CUDA], [
AC_ARG_WITH([cuda],
	[AS_HELP_STRING([--with-cuda@<:@=auto|yes|no|FOLDER@:>@],
		[GPUs, by cuda.h of the CUDA Toolkit in FOLDER (auto)])],
	[], [with_cuda=auto])
tarn_have_cuda=no
CUDA_CFLAGS=
AS_CASE([$with_cuda], [no], [tarn_folders=],
	[auto|yes], [tarn_folders="$CUDA_HOME /usr/local/cuda /usr"],
	[tarn_folders=$with_cuda])
for tarn_folder in $tarn_folders; do
	AS_IF([test "x$tarn_have_cuda" = xyes], [break])
	AC_MSG_CHECKING([for cuda.h of CUDA 12.0 or newer in $tarn_folder])
	# As a system's header: its warnings are not ours.
	AS_CASE([$tarn_folder], [/usr], [tarn_flags=],
		[tarn_flags="-isystem $tarn_folder/include"])
	tarn_save_CPPFLAGS=$CPPFLAGS
	CPPFLAGS="$CPPFLAGS $tarn_flags"
	AC_COMPILE_IFELSE([AC_LANG_SOURCE([[#include <cuda.h>
#if CUDA_VERSION < 12000
#error too old
#endif
]])],
		[tarn_have_cuda=yes
		tarn_cuda_bin=$tarn_folder/bin
		CUDA_CFLAGS=$tarn_flags])
	CPPFLAGS=$tarn_save_CPPFLAGS
	AC_MSG_RESULT([$tarn_have_cuda])
done
AS_IF([test "x$tarn_have_cuda" = xyes], [tarn_summary_cuda=yes],
	[test "x$with_cuda" = xno], [tarn_summary_cuda="no (switched off)"],
	[test "x$with_cuda" = xauto],
		[tarn_summary_cuda="no (name the CUDA Toolkit: --with-cuda=FOLDER)"],
	[AC_MSG_ERROR([--with-cuda=$with_cuda was asked for, but there is no
cuda.h of CUDA 12.0 or newer in$tarn_folders; name the CUDA Toolkit's folder])])
AC_SUBST([CUDA_CFLAGS])
AM_CONDITIONAL([HAVE_CUDA], [test "x$tarn_have_cuda" = xyes])
TARN_NVCC
])

# TARN_NVCC
# ---------
# The compiler for devices: of the toolkit whose header was found, or in PATH. It
# must compile a kernel, since it refuses host compilers that it does not know.
AC_DEFUN([TARN_NVCC], [
AC_ARG_VAR([NVCC], [the compiler of the CUDA Toolkit, for kernels; no: none])
tarn_want_nvcc=$NVCC
AS_IF([test "x$tarn_have_cuda" != xyes], [NVCC=no])
AS_IF([test "x$NVCC" != xno],
	[AC_PATH_PROG([NVCC], [nvcc], [no],
		[$tarn_cuda_bin$PATH_SEPARATOR$PATH])])
AS_IF([test "x$NVCC" != xno], [
	AC_MSG_CHECKING([whether $NVCC compiles kernels])
	echo 'extern "C" __global__ void k(const __grid_constant__ int n) {}' \
		>conftest.cu
	AS_IF([$NVCC -fatbin -std=c++17 -gencode arch=compute_80,code=sm_80 \
		-gencode arch=compute_90,code=sm_90 \
		-gencode arch=compute_75,code=compute_75 \
		-o conftest.fatbin conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
		[tarn_nvcc=yes], [tarn_nvcc=no
		NVCC=no])
	rm -f conftest.cu conftest.fatbin
	AC_MSG_RESULT([$tarn_nvcc])])
AS_IF([test "x$NVCC" != xno], [tarn_summary_kernels=yes],
	[test "x$tarn_have_cuda" != xyes],
		[tarn_summary_kernels="no (there is no support for GPUs)"],
	[test "x$tarn_want_nvcc" = xno],
		[tarn_summary_kernels="no (switched off)"],
	[tarn_summary_kernels="no (install nvcc of CUDA 12.0 or newer: NVCC=FILE)"])
AM_CONDITIONAL([HAVE_NVCC], [test "x$NVCC" != xno])
])

# TARN_ARCHIVE(PKG-VARIABLE, NAME, FUNCTION, DEBIAN-PACKAGE, FLAGS)
# ----------------------------------------------------------------
# Takes libNAME.a for -lNAME where it links with FLAGS, or says what is missing.
AC_DEFUN([TARN_ARCHIVE], [
AS_CASE([" $$1_LIBS "], [*" -l$2 "*], [
	AC_MSG_CHECKING([for a lib$2.a to put inside])
	tarn_save_CFLAGS=$CFLAGS
	tarn_save_LDFLAGS=$LDFLAGS
	tarn_save_LIBS=$LIBS
	tarn_archive=`AS_ECHO([" $$1_LIBS "]) | $SED 's/ -l$2 / -l:lib$2.a /'`
	CFLAGS="$CFLAGS -fPIC"
	LDFLAGS="$LDFLAGS $5"
	LIBS="$tarn_archive $LIBS"
	AC_LINK_IFELSE([AC_LANG_CALL([
			__attribute__((visibility("hidden"))) void *__wrap_stdin;],
			[$3])],
		[$1_LIBS=$tarn_archive
		tarn_summary_bundle="$tarn_summary_bundle $2"
		AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no])
		AS_IF([test "x$enable_bundle" = xyes], [AC_MSG_ERROR(
			[--enable-bundle was asked for, but no lib$2.a links into it; install $4])])
		tarn_summary_bundle="$tarn_summary_bundle (no $2: install $4)"])
	CFLAGS=$tarn_save_CFLAGS
	LDFLAGS=$tarn_save_LDFLAGS
	LIBS=$tarn_save_LIBS
])
])

# TARN_BUNDLE
# -----------
# --enable-bundle: for a folder that is carried elsewhere, as a wheel is. What
# lies in it is found from where it lies (libtarn.so in the folder, programs in
# its bin/), and other libraries are inside. auto takes those inside that have
# an archive.
AC_DEFUN([TARN_BUNDLE], [
AC_ARG_ENABLE([bundle],
	[AS_HELP_STRING([--enable-bundle@<:@=auto|yes|no@:>@],
		[libtarn, programs and module in one folder that can be moved, with other libraries inside (no)])],
	[], [enable_bundle=no])
tarn_summary_bundle="no (not asked for)"
AS_IF([test "x$enable_bundle" != xno], [
	tarn_summary_bundle="yes, with these inside:"
	# As lib/bundle.c tells.
	tarn_shared="-shared -Wl,--exclude-libs,ALL -Wl,--wrap=stdin"
	TARN_ARCHIVE([JANSSON], [jansson], [json_loads], [libjansson-dev],
		[$tarn_shared])
	TARN_ARCHIVE([LIBURING], [uring], [io_uring_queue_init],
		[liburing-dev], [$tarn_shared])
	TARN_ARCHIVE([ZLIB], [z], [inflate], [zlib1g-dev], [$tarn_shared])
	TARN_ARCHIVE([INIH], [inih], [ini_parse], [libinih-dev])
	# No path of this machine is written into what others will have.
	hardcode_libdir_flag_spec=
])
AM_CONDITIONAL([BUNDLE], [test "x$enable_bundle" != xno])
])

# TARN_PYTHON
# -----------
# The interpreter for the tests: one that sees numpy, the distribution's own
# first. Tests that need numpy are skipped by name where there is none.
AC_DEFUN([TARN_PYTHON], [
AC_ARG_VAR([PYTHON], [Python 3 with numpy, for the tests])
AC_MSG_CHECKING([for a python3 with numpy])
AS_IF([test -z "$PYTHON"], [
	for tarn_py in /usr/bin/python3 python3; do
		AS_IF([$tarn_py -c 'import numpy' >/dev/null 2>&1],
			[PYTHON=$tarn_py; break])
	done
])
tarn_summary_numpy=yes
AS_IF([test -z "$PYTHON"], [
	tarn_summary_numpy="no (install python3-numpy)"
	AS_IF([test -x /usr/bin/python3], [PYTHON=/usr/bin/python3],
		[PYTHON=python3])
])
AC_MSG_RESULT([$PYTHON, numpy: $tarn_summary_numpy])
AC_SUBST([PYTHON])
])

# TARN_PYTHON_MODULE: --enable-python, the module for $PYTHON. From 3.11 on it
# is one binary for all later versions (the stable ABI has buffers since then);
# older ones and those without a global lock get one of their own.
AC_DEFUN([TARN_PYTHON_MODULE], [
AC_ARG_ENABLE([python],
	[AS_HELP_STRING([--enable-python@<:@=auto|yes|no@:>@],
		[the Python module (auto)])],
	[], [enable_python=auto])
AC_ARG_VAR([PYTHON_CPPFLAGS], [flags to find the headers of PYTHON])
AC_ARG_VAR([tarnpythondir], [where the Python module is installed])
tarn_have_python=no
tarn_summary_python="no (switched off)"
AS_IF([test "x$enable_python" != xno], [
	AC_MSG_CHECKING([for the headers of $PYTHON])
	tarn_python_answers=`$PYTHON -c '
import os, sys, sysconfig as s
if sys.version_info < (3, 9): sys.exit(1)
stable = sys.version_info >= (3, 11) and not s.get_config_var("Py_GIL_DISABLED")
folder = s.get_path("include")
if not os.path.exists(folder + "/Python.h"): sys.exit(1)
debian = "deb_system" in s.get_scheme_names()
print("-I" + folder + (" -DPy_LIMITED_API=0x030b0000" if stable else ""),
	".abi3.so" if stable else s.get_config_var("EXT_SUFFIX"),
	"lib/python%d.%d/%s-packages" % (*sys.version_info[[:2]],
		"dist" if debian else "site"), sep=":")' 2>/dev/null`
	AS_IF([test -n "$tarn_python_answers"],
		[tarn_have_python=yes
		tarn_summary_python="yes, for $PYTHON"
		AC_MSG_RESULT([yes])],
		[tarn_summary_python="no (install python3-dev)"
		AC_MSG_RESULT([no])
		AS_IF([test "x$enable_python" = xyes], [AC_MSG_ERROR(
			[--enable-python was asked for, but $PYTHON is not 3.9 or newer with its headers; install python3-dev])])])
])
AS_IF([test "x$tarn_have_python" = xyes], [
	tarn_save_IFS=$IFS
	IFS=:
	set -- $tarn_python_answers
	IFS=$tarn_save_IFS
	PYTHON_CPPFLAGS="$PYTHON_CPPFLAGS $[]1"
	PYTHON_SUFFIX=$[]2
	test -n "$tarnpythondir" || tarnpythondir="\${prefix}/$[]3/tarn"
])
AC_SUBST([PYTHON_SUFFIX])
AM_CONDITIONAL([HAVE_PYTHON], [test "x$tarn_have_python" = xyes])
])

# TARN_SYSTEMD
# ------------
# Where units go: below the prefix, where systemd looks for those of /usr and
# of /usr/local; so that make install writes nowhere else unasked.
AC_DEFUN([TARN_SYSTEMD], [
AC_ARG_WITH([systemdsystemunitdir],
	[AS_HELP_STRING([--with-systemdsystemunitdir@<:@=DIR|no@:>@],
		[for units of systemd (PREFIX/lib/systemd/system)])],
	[], [with_systemdsystemunitdir=auto])
AC_ARG_WITH([systemduserunitdir],
	[AS_HELP_STRING([--with-systemduserunitdir@<:@=DIR@:>@],
		[for those of users (PREFIX/lib/systemd/user)])],
	[], [with_systemduserunitdir=auto])
AS_CASE([$with_systemdsystemunitdir],
	[auto|yes], [systemdsystemunitdir='${prefix}/lib/systemd/system'],
	[systemdsystemunitdir=$with_systemdsystemunitdir])
AS_CASE([$with_systemduserunitdir],
	[auto|yes], [systemduserunitdir='${prefix}/lib/systemd/user'],
	[systemduserunitdir=$with_systemduserunitdir])
AM_CONDITIONAL([HAVE_SYSTEMD], [test "x$systemdsystemunitdir" != xno])
AC_SUBST([systemdsystemunitdir])
AC_SUBST([systemduserunitdir])
AS_IF([test "x$systemdsystemunitdir" = xno],
	[tarn_summary_systemd="no (switched off)"],
	[tarn_summary_systemd=yes])
])

# TARN_SUMMARY
# ------------
AC_DEFUN([TARN_SUMMARY], [
AC_MSG_NOTICE([

tarn $PACKAGE_VERSION is configured:

  io_uring engine (else threads) ... $tarn_summary_uring
  NUMA placement by libnuma ........ $tarn_summary_numa
  operations (libtarnops), by BLAS . $tarn_summary_blas
  GPUs by the driver of CUDA ....... $tarn_summary_cuda
  kernels for GPUs, by nvcc ........ $tarn_summary_kernels
  libtarn-mpi ...................... $tarn_summary_mpi
  python and numpy for the tests ... $tarn_summary_numpy
  Python module .................... $tarn_summary_python
  units for systemd ................ $tarn_summary_systemd
  a bundle, as for a wheel ......... $tarn_summary_bundle
  sanitizers ....................... $enable_sanitizers
  fuzzers .......................... $enable_fuzzers
  installs into .................... $prefix

Next: make, make check. A "no" above names the package that turns it to yes.
])
])
