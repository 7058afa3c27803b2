# libtarn: what a process links. core is all of it; the shared library is core
# behind the symbol map, the daemon and the white-box tests link core.

noinst_LTLIBRARIES += lib/libcore.la
lib_libcore_la_SOURCES = \
	lib/arena.c \
	lib/arena.h \
	lib/create.c \
	lib/decimal.c \
	lib/decimal.h \
	lib/dtype.c \
	lib/element.c \
	lib/equal.c \
	lib/error.c \
	lib/expr.c \
	lib/expr.h \
	lib/expr_index.c \
	lib/expr_method.c \
	lib/file.c \
	lib/file.h \
	lib/file_tensors.c \
	lib/json_tally.c \
	lib/json_tally.h \
	lib/layout.c \
	lib/layout.h \
	lib/layout_ask.c \
	lib/layout_format.c \
	lib/layout_overlap.c \
	lib/minifloat.c \
	lib/name_index.c \
	lib/name_index.h \
	lib/nest.c \
	lib/nest.h \
	lib/nest_read.c \
	lib/npy.c \
	lib/npy.h \
	lib/npy_header.c \
	lib/number.c \
	lib/number.h \
	lib/parse.c \
	lib/print.c \
	lib/print.h \
	lib/print_number.c \
	lib/ravel.c \
	lib/rearrange.c \
	lib/reshape.c \
	lib/reshape.h \
	lib/reshape_explain.c \
	lib/safetensors.c \
	lib/safetensors.h \
	lib/safetensors_entry.c \
	lib/storage.c \
	lib/storage.h \
	lib/storage_file.c \
	lib/tensor.c \
	lib/tensor.h \
	lib/tensor_view.c \
	lib/view_index.c \
	lib/view_index.h \
	lib/view_order.c \
	lib/view_shape.c \
	lib/view_window.c \
	$(NULL)
lib_libcore_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(LIBURING_CFLAGS)
lib_libcore_la_LIBADD = \
	shm/libshm.la \
	$(JANSSON_LIBS) \
	$(LIBURING_LIBS) \
	-lm \
	$(NULL)

# The engines that read files into memory.
lib_libcore_la_SOURCES += \
	lib/direct.c \
	lib/direct.h \
	lib/fill.c \
	lib/fill.h \
	lib/fill_new.c \
	lib/fill_state.h \
	lib/io.c \
	lib/io.h \
	lib/io_engine.h \
	lib/io_threads.c \
	$(NULL)
if HAVE_LIBURING
lib_libcore_la_SOURCES += lib/io_uring.c
else
lib_libcore_la_SOURCES += lib/io_uring_none.c
endif

# The client: what speaks to a daemon.
lib_libcore_la_SOURCES += \
	lib/address.c \
	lib/autostart.c \
	lib/autostart.h \
	lib/connection.c \
	lib/connection.h \
	lib/daemon_path.c \
	lib/daemon_path.h \
	lib/descriptor.c \
	lib/file_cache.c \
	lib/file_cache.h \
	lib/lease_book.c \
	lib/lease_book.h \
	lib/load_request.c \
	lib/load_request.h \
	lib/pool_map.c \
	lib/pool_map.h \
	lib/populate.c \
	lib/socket_path.c \
	lib/socket_path.h \
	lib/store.c \
	lib/store.h \
	lib/store_get.c \
	lib/store_load.c \
	lib/store_storage.c \
	$(NULL)
lib_libcore_la_CPPFLAGS += -DTARND_PATH='"$(sbindir)/tarnd"'

lib_LTLIBRARIES += lib/libtarn.la
lib_libtarn_la_SOURCES =
lib_libtarn_la_LIBADD = lib/libcore.la
lib_libtarn_la_LDFLAGS = \
	$(AM_LDFLAGS) \
	-version-info 0:0:0 \
	-Wl,--version-script=$(top_srcdir)/lib/libtarn.map \
	-Wl,-z,relro,-z,now \
	-Wl,-Bsymbolic-functions \
	$(NULL)
EXTRA_lib_libtarn_la_DEPENDENCIES = lib/libtarn.map
EXTRA_DIST += lib/libtarn.map

tarnincludedir = $(includedir)/tarn
tarninclude_HEADERS = \
	lib/include/tarn/descriptor.h \
	lib/include/tarn/dtype.h \
	lib/include/tarn/error.h \
	lib/include/tarn/file.h \
	lib/include/tarn/layout.h \
	lib/include/tarn/store.h \
	lib/include/tarn/tarn.h \
	lib/include/tarn/tensor.h \
	$(NULL)

pkgconfig_DATA = lib/tarn.pc
