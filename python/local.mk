# SPDX-License-Identifier: MIT
#
# The module tarn for Python. It uses libtarn through its public headers, as
# anybody else would. In the build tree python/ is a folder that PYTHONPATH may
# name: the sources are linked into it, beside the library.

if HAVE_PYTHON
tarnpython_LTLIBRARIES = python/tarn/_tarn.la
python_tarn__tarn_la_SOURCES = \
	python/arguments.c \
	python/borrow.c \
	python/buffer.c \
	python/channel.c \
	python/channel.h \
	python/channel_member.c \
	python/copy.c \
	python/create.c \
	python/data.c \
	python/data.h \
	python/data_columns.c \
	python/data_get.c \
	python/data_loader.c \
	python/data_order.c \
	python/data_record.c \
	python/data_source.c \
	python/data_source_open.c \
	python/deadline.c \
	python/device.c \
	python/device.h \
	python/dlpack.c \
	python/dlpack.h \
	python/dlpack_in.c \
	python/dlpack_place.c \
	python/dtype.c \
	python/element.c \
	python/elements.c \
	python/errors.c \
	python/file.c \
	python/file_shards.c \
	python/follow.c \
	python/gather.c \
	python/interface.h \
	python/item.c \
	python/libraries.c \
	python/lock.c \
	python/module.c \
	python/module.h \
	python/nodes.c \
	python/operators.c \
	python/pack.c \
	python/pack.h \
	python/pack_array.c \
	python/pack_part.c \
	python/pack_torch.c \
	python/packed.c \
	python/place.c \
	python/progress.c \
	python/publish.c \
	python/refit.c \
	python/save.c \
	python/set.c \
	python/set.h \
	python/shape.c \
	python/slot.c \
	python/slot_put.c \
	python/snapshot.c \
	python/standard.c \
	python/store.c \
	python/subscript.c \
	python/tensor.c \
	python/unpack.c \
	python/unpack_array.c \
	python/unpack_make.c \
	python/view.c \
	$(NULL)
python_tarn__tarn_la_CPPFLAGS = $(AM_CPPFLAGS) $(PYTHON_CPPFLAGS)
python_tarn__tarn_la_LIBADD = lib/libtarn.la
python_tarn__tarn_la_LDFLAGS = \
	$(AM_LDFLAGS) \
	-module \
	-avoid-version \
	-shrext $(PYTHON_SUFFIX) \
	-Wl,-z,relro,-z,now \
	$(NULL)
if BUNDLE
python_tarn__tarn_la_LDFLAGS += -Wl,-rpath,'$$ORIGIN'
endif

if HAVE_BLAS
tarnpython_LTLIBRARIES += python/tarn/_ops.la
python_tarn__ops_la_SOURCES = \
	python/interface.h \
	python/ops/along.c \
	python/ops/elementwise.c \
	python/ops/methods.c \
	python/ops/methods.h \
	python/ops/module.c \
	python/ops/operand.c \
	python/ops/ops.h \
	python/ops/order.c \
	python/ops/products.c \
	python/ops/products.h \
	python/ops/random.c \
	python/ops/reduce.c \
	python/ops/select.c \
	$(NULL)
python_tarn__ops_la_CPPFLAGS = \
	$(python_tarn__tarn_la_CPPFLAGS) \
	-DBLAS_SONAME='"$(BLAS_SONAME)"' \
	$(NULL)
python_tarn__ops_la_LIBADD = ops/libtarnops.la lib/libtarn.la
python_tarn__ops_la_LDFLAGS = $(python_tarn__tarn_la_LDFLAGS)
endif

# Linking it anew, which installing does, wants libtarn to be there. Through a
# variable, since automake gives up a rule of its own for one of that name.
PYTHON_INSTALL = install-tarnpythonLTLIBRARIES
$(PYTHON_INSTALL): install-libLTLIBRARIES

PYTHON_SOURCES = \
	python/tarn/__init__.py \
	python/tarn/__init__.pyi \
	python/tarn/_arrow.py \
	python/tarn/_arrow_c.py \
	python/tarn/_arrow_load.py \
	python/tarn/_conversions.py \
	python/tarn/_channel.py \
	python/tarn/_channel.pyi \
	python/tarn/_collate.py \
	python/tarn/_copies.py \
	python/tarn/_data_cache.py \
	python/tarn/_data_collate.py \
	python/tarn/_data_loader.py \
	python/tarn/_data_records.py \
	python/tarn/_data_workers.py \
	python/tarn/_dataset.py \
	python/tarn/_follow.py \
	python/tarn/_follow.pyi \
	python/tarn/_libraries.py \
	python/tarn/_names.py \
	python/tarn/_nn_tree.py \
	python/tarn/_nn_versions.py \
	python/tarn/_parts.py \
	python/tarn/_pickled.py \
	python/tarn/_plan.py \
	python/tarn/_prefetch.py \
	python/tarn/_install.py \
	python/tarn/_install.pyi \
	python/tarn/_safe_open.py \
	python/tarn/_safe_open.pyi \
	python/tarn/_safetensors.py \
	python/tarn/_safetensors.pyi \
	python/tarn/_saving.py \
	python/tarn/_saving.pyi \
	python/tarn/_select.py \
	python/tarn/_shards.py \
	python/tarn/_standard_create.py \
	python/tarn/_standard_dtypes.py \
	python/tarn/_standard_elements.py \
	python/tarn/_standard_places.py \
	python/tarn/_standard_reduce.py \
	python/tarn/_store.py \
	python/tarn/_store.pyi \
	python/tarn/_tarn.pyi \
	python/tarn/_td_rows.py \
	python/tarn/_td_storage.py \
	python/tarn/array_api.py \
	python/tarn/array_api.pyi \
	python/tarn/data.py \
	python/tarn/data.pyi \
	python/tarn/nn.py \
	python/tarn/nn.pyi \
	python/tarn/ops.py \
	python/tarn/ops.pyi \
	python/tarn/numpy.py \
	python/tarn/numpy.pyi \
	python/tarn/py.typed \
	python/tarn/tensordict.py \
	python/tarn/tensordict.pyi \
	$(NULL)
dist_tarnpython_DATA = $(PYTHON_SOURCES)
# A package of its own, since it is much, and of PyTorch's users alone.
PYTHON_TORCH = \
	python/tarn/torch/__init__.py \
	python/tarn/torch/__init__.pyi \
	python/tarn/torch/ahead.py \
	python/tarn/torch/collate.py \
	python/tarn/torch/data.py \
	python/tarn/torch/data.pyi \
	python/tarn/torch/dcp.py \
	python/tarn/torch/dcp.pyi \
	python/tarn/torch/dcp_folder.py \
	python/tarn/torch/dcp_folder.pyi \
	python/tarn/torch/dcp_metadata.py \
	python/tarn/torch/devices.py \
	python/tarn/torch/files.py \
	python/tarn/torch/files.pyi \
	python/tarn/torch/loader.py \
	python/tarn/torch/loader.pyi \
	python/tarn/torch/moving.py \
	python/tarn/torch/nodes.py \
	python/tarn/torch/pinned.py \
	python/tarn/torch/results.py \
	python/tarn/torch/ring.py \
	python/tarn/torch/staging.py \
	python/tarn/torch/shared.py \
	python/tarn/torch/shared.pyi \
	python/tarn/torch/state.py \
	$(NULL)
tarnpythontorchdir = $(tarnpythondir)/torch
dist_tarnpythontorch_DATA = $(PYTHON_TORCH)

# What makes the build tree's folder whole; nothing of it is installed. A
# bundle's module looks for libtarn where it lies itself.
if BUNDLE
BESIDE_LIBTARN = ln -sf ../../lib/.libs/libtarn.so python/tarn/libtarn.so
BESIDE_LIBTARNOPS = ln -sf ../../ops/.libs/libtarnops.so python/tarn/libtarnops.so
CLEANFILES += python/tarn/libtarn.so python/tarn/libtarnops.so
else
BESIDE_LIBTARN = :
BESIDE_LIBTARNOPS = :
endif
PYTHON_BUILT = python/tarn/_tarn$(PYTHON_SUFFIX)
if HAVE_BLAS
PYTHON_BUILT += python/tarn/_ops$(PYTHON_SUFFIX)
python/tarn/_ops$(PYTHON_SUFFIX): python/tarn/_ops.la
	$(AM_V_GEN)ln -sf .libs/_ops$(PYTHON_SUFFIX) $@
	$(AM_V_at)$(BESIDE_LIBTARNOPS)
endif
noinst_DATA += $(PYTHON_BUILT)
CLEANFILES += $(PYTHON_BUILT)
python/tarn/_tarn$(PYTHON_SUFFIX): python/tarn/_tarn.la $(PYTHON_SOURCES) $(PYTHON_TORCH)
	$(AM_V_GEN)ln -sf .libs/_tarn$(PYTHON_SUFFIX) $@
	$(AM_V_at)$(BESIDE_LIBTARN)
	$(AM_V_at)$(MKDIR_P) python/tarn/torch
	$(AM_V_at)test $(srcdir) -ef . || \
	for f in $(PYTHON_SOURCES) $(PYTHON_TORCH); do \
		ln -sf $(abs_srcdir)/$$f $$f || exit 1; \
	done

CLEAN_TARGETS += clean-python
clean-python:
	test $(srcdir) -ef . || rm -f $(PYTHON_SOURCES) $(PYTHON_TORCH)
	rm -rf python/tarn/__pycache__ python/tarn/torch/__pycache__
endif

# pip install, and wheels.
EXTRA_DIST += \
	python/licenses/inih.txt \
	python/licenses/jansson.txt \
	python/licenses/liburing.txt \
	python/licenses/xxhash.txt \
	python/licenses/zlib.txt \
	python/pyproject.toml \
	python/wheel_backend.py \
	scripts/wheel \
	$(NULL)
