# libtarn: what a process links. core is all of it; the shared library is core
# behind the symbol map, the daemon and the white-box tests link core.
#
#	layout/  how to walk bytes: pure values, no storage, no allocation
#	descriptor/ what a tensor's 256 bytes must be: for library and daemon
#	number/  an element as bits and as a number; runs of them converted
#	move/    from memory to memory: the nest of loops that two layouts make,
#		and what walks it: runs, tiles, vectors
#	tensor/  a storage and a layout: elements, copies, printing
#	file/    safetensors and .npy, parsed; their heads, written
#	io/      the engines that move bytes between files and memory
#	copy/    the verb: copy operations, one executor for each pair of media; streams
#	save/    tensors become a file, whole or not at all
#	cuda/    GPUs that read this process's memory: devices, registrations;
#		and moves by a device
#	store/   the client of a daemon
#	channel/ tensors handed from process to process, through slots
#	set/	tensors below one prefix: what they are, and their next version
#	data/	samples for training: their order, sources, windows and packing,
#		and loaders of them
#	dlpack/  tensors handed from library to library, by DLPack
#
# Each uses those above it, but for io, which uses none of them, and cuda, which
# uses those down to move.

# The loops over elements, with flags of their own.
noinst_LTLIBRARIES += lib/libconvert.la
lib_libconvert_la_SOURCES = \
	lib/move/simd.c \
	lib/move/simd.h \
	lib/move/simd_avx2.c \
	lib/number/convert_avx2.c \
	lib/number/convert_c.c \
	lib/number/convert_element.h \
	lib/number/convert_kernels.h \
	lib/number/word_sums.c \
	lib/number/word_sums.h \
	$(NULL)
lib_libconvert_la_CFLAGS = $(AM_CFLAGS) $(TARN_VECTOR_CFLAGS)

# Elements and nests of loops: for the library, and for that of the operations,
# which walks tensors as it does.
noinst_LTLIBRARIES += lib/libmove.la
lib_libmove_la_SOURCES = \
	lib/number/convert.c \
	lib/number/convert.h \
	lib/number/convert_steps.h \
	lib/number/minifloat.c \
	lib/number/number.c \
	lib/number/number.h \
	lib/move/bytes.c \
	lib/move/bytes.h \
	lib/move/move.c \
	lib/move/move.h \
	lib/move/move_threads.c \
	lib/move/nest.c \
	lib/move/nest.h \
	lib/move/raw.c \
	lib/move/raw.h \
	lib/move/raw_elements.c \
	lib/move/raw_pair.c \
	lib/move/raw_shuffle.c \
	lib/move/raw_transpose.c \
	lib/move/rows.c \
	lib/move/rows.h \
	lib/move/rows_avx512.c \
	lib/move/rows_walk.h \
	lib/move/tile.c \
	lib/move/tile.h \
	lib/move/tile_channels.c \
	lib/move/tile_stream.c \
	$(NULL)
lib_libmove_la_LIBADD = lib/libconvert.la

noinst_LTLIBRARIES += lib/libcore.la
lib_libcore_la_SOURCES = \
	lib/error.c \
	lib/reserved.c \
	lib/reserved.h \
	lib/layout/dtype.c \
	lib/layout/expr.c \
	lib/layout/expr.h \
	lib/layout/expr_index.c \
	lib/layout/expr_method.c \
	lib/layout/layout.c \
	lib/layout/layout.h \
	lib/layout/layout_ask.c \
	lib/layout/layout_format.c \
	lib/layout/layout_overlap.c \
	lib/layout/rearrange.c \
	lib/layout/reshape.c \
	lib/layout/reshape.h \
	lib/layout/reshape_explain.c \
	lib/layout/view_index.c \
	lib/layout/view_index.h \
	lib/layout/view_order.c \
	lib/layout/view_shape.c \
	lib/layout/view_window.c \
	lib/descriptor/descriptor.c \
	lib/descriptor/descriptor.h \
	lib/tensor/create.c \
	lib/tensor/decimal.c \
	lib/tensor/decimal.h \
	lib/tensor/element.c \
	lib/tensor/equal.c \
	lib/tensor/nest_read.c \
	lib/tensor/nest_read.h \
	lib/tensor/parse.c \
	lib/tensor/print.c \
	lib/tensor/print.h \
	lib/tensor/print_number.c \
	lib/tensor/storage.c \
	lib/tensor/storage.h \
	lib/tensor/storage_file.c \
	lib/tensor/tensor.c \
	lib/tensor/tensor.h \
	lib/tensor/tensor_ops.c \
	lib/tensor/tensor_view.c \
	lib/file/archive.c \
	lib/file/arena.c \
	lib/file/arena.h \
	lib/file/checkpoint.c \
	lib/file/checkpoint.h \
	lib/file/file.c \
	lib/file/file.h \
	lib/file/file_map.c \
	lib/file/file_metadata.c \
	lib/file/file_read.c \
	lib/file/file_tensors.c \
	lib/file/huge_alloc.c \
	lib/file/huge_alloc.h \
	lib/file/inflate.c \
	lib/file/json_tally.c \
	lib/file/json_tally.h \
	lib/file/name_index.c \
	lib/file/name_index.h \
	lib/file/npy.c \
	lib/file/npy.h \
	lib/file/npy_header.c \
	lib/file/npy_write_head.c \
	lib/file/pickle.c \
	lib/file/pickle.h \
	lib/file/pickle_global.c \
	lib/file/pickle_machine.h \
	lib/file/safetensors.c \
	lib/file/safetensors.h \
	lib/file/safetensors_entry.c \
	lib/file/safetensors_plain.c \
	lib/file/safetensors_text.c \
	lib/file/safetensors_write_head.c \
	lib/file/shard_index.c \
	lib/file/shard_index.h \
	lib/file/shards.c \
	lib/file/swar.h \
	lib/file/text.c \
	lib/file/text.h \
	lib/file/write_head.h \
	lib/file/zip.c \
	lib/file/zip.h \
	lib/file/zip_write.c \
	lib/io/direct.c \
	lib/io/direct.h \
	lib/io/disk.c \
	lib/io/disk.h \
	lib/io/fill.c \
	lib/io/fill.h \
	lib/io/fill_new.c \
	lib/io/fill_internal.h \
	lib/io/io.c \
	lib/io/io.h \
	lib/io/io_engine.h \
	lib/io/io_plain.c \
	lib/io/io_threads.c \
	lib/io/pages.c \
	lib/io/pages.h \
	lib/io/io_mode.c \
	lib/io/io_mode.h \
	lib/copy/bounce.c \
	lib/copy/bounce.h \
	lib/copy/copy.c \
	lib/copy/copy_check.c \
	lib/copy/copy_device.c \
	lib/copy/copy_device.h \
	lib/copy/copy_memory.c \
	lib/copy/copy_read.c \
	lib/copy/copy_read.h \
	lib/copy/copy_relay.c \
	lib/copy/copy_through.c \
	lib/copy/copy_write.c \
	lib/copy/copy_write.h \
	lib/copy/copy_env.c \
	lib/copy/copy_env.h \
	lib/copy/file_slots.c \
	lib/copy/file_slots.h \
	lib/copy/gather.c \
	lib/copy/load.c \
	lib/copy/copy_op.c \
	lib/copy/copy_op.h \
	lib/copy/pack.c \
	lib/copy/pack.h \
	lib/copy/parts.c \
	lib/copy/parts.h \
	lib/copy/ravel.c \
	lib/copy/row_numbers.c \
	lib/copy/row_numbers.h \
	lib/copy/slices.c \
	lib/copy/slices.h \
	lib/copy/read_chunk.c \
	lib/copy/read_plan.c \
	lib/copy/read_plan.h \
	lib/copy/regions.c \
	lib/copy/regions.h \
	lib/copy/stream.c \
	lib/copy/stream.h \
	lib/copy/stream_gather.c \
	lib/copy/stream_poll.c \
	lib/copy/stream_queue.c \
	lib/copy/stream_work.c \
	lib/copy/times.h \
	lib/copy/write_cut.c \
	lib/copy/write_mode.c \
	lib/save/box.c \
	lib/save/box.h \
	lib/save/checksums.c \
	lib/save/checksums.h \
	lib/save/checksums_avx2.c \
	lib/save/transposed.c \
	lib/save/transposed.h \
	lib/save/chunk.c \
	lib/save/chunk.h \
	lib/save/plan.c \
	lib/save/plan.h \
	lib/save/replace.c \
	lib/save/replace.h \
	lib/save/replace_commit.c \
	lib/save/replace_path.c \
	lib/save/replace_rights.c \
	lib/save/replace_trust.c \
	lib/save/save.c \
	lib/save/chunk_io.c \
	lib/save/chunk_io.h \
	lib/save/verify.c \
	lib/save/verify.h \
	lib/save/verify_claims.c \
	lib/save/staging.c \
	lib/save/staging.h \
	lib/save/writer.c \
	lib/save/writer.h \
	lib/cuda/cuda.h \
	lib/cuda/element.h \
	lib/cuda/kernel_steps.h \
	lib/cuda/kernels.h \
	lib/cuda/list_steps.h \
	lib/cuda/memory.h \
	lib/cuda/work.h \
	lib/cuda/reach.c \
	lib/store/address.c \
	lib/store/autostart.c \
	lib/store/autostart.h \
	lib/store/message_body.c \
	lib/store/message_body.h \
	lib/store/check.c \
	lib/store/connection.c \
	lib/store/connection.h \
	lib/store/connection_call.c \
	lib/store/connection_fork.c \
	lib/store/connection_resume.c \
	lib/store/connection_send.c \
	lib/store/created.c \
	lib/store/created.h \
	lib/store/created_claim.c \
	lib/store/daemon_environment.c \
	lib/store/daemon_environment.h \
	lib/store/daemon_path.c \
	lib/store/daemon_path.h \
	lib/store/descriptor.c \
	lib/store/device_hooks.c \
	lib/store/device_load.c \
	lib/store/device_pointer.c \
	lib/store/device_storage.c \
	lib/store/device_storage.h \
	lib/store/device_tensor.c \
	lib/store/file_lock.c \
	lib/store/file_lock.h \
	lib/store/lease_book.c \
	lib/store/lease_pins.c \
	lib/store/lease_book.h \
	lib/store/lease_book_internal.h \
	lib/store/lease_pins.h \
	lib/store/lease_slots.c \
	lib/store/lease_slots.h \
	lib/store/inflated.c \
	lib/store/inflated.h \
	lib/store/load_names.c \
	lib/store/load_request.c \
	lib/store/load_request.h \
	lib/store/load_shards.c \
	lib/store/load_shards.h \
	lib/store/load_verified.c \
	lib/store/loaded.c \
	lib/store/node.c \
	lib/store/node.h \
	lib/store/not_kept.c \
	lib/store/not_kept.h \
	lib/store/open_files.c \
	lib/store/open_files.h \
	lib/store/own_map.c \
	lib/store/own_pages.c \
	lib/store/own_pages.h \
	lib/store/own_map.h \
	lib/store/own_place.c \
	lib/store/own_place.h \
	lib/store/pool_extent.c \
	lib/store/pool_extent.h \
	lib/store/pool_map.c \
	lib/store/pool_map.h \
	lib/store/pool_cow.c \
	lib/store/pool_cuda.c \
	lib/store/pool_segments.c \
	lib/store/pool_segments.h \
	lib/store/pages.c \
	lib/store/populate.c \
	lib/store/follow.c \
	lib/store/guard.c \
	lib/store/cow.c \
	lib/store/cow.h \
	lib/store/cow_map.c \
	lib/store/cow_map.h \
	lib/store/patch.c \
	lib/store/patch.h \
	lib/store/replica.c \
	lib/store/replica.h \
	lib/store/replicate.c \
	lib/store/segments.c \
	lib/store/report.c \
	lib/store/publish.c \
	lib/store/publish_lent.c \
	lib/store/publish_lent.h \
	lib/store/publish_plan.c \
	lib/store/publish_plan.h \
	lib/store/snapshot.c \
	lib/store/snapshot_below.c \
	lib/store/snapshot_hold.c \
	lib/store/snapshot_internal.h \
	lib/store/socket_connect.c \
	lib/store/socket_connect.h \
	lib/store/socket_path.c \
	lib/store/socket_path.h \
	lib/store/store.c \
	lib/store/store.h \
	lib/store/store_fork.c \
	lib/store/store_get.c \
	lib/store/store_hello.c \
	lib/store/store_leases.c \
	lib/store/store_load.c \
	lib/store/store_storage.c \
	lib/store/tensor_lock.c \
	lib/store/wait.c \
	lib/store/wait.h \
	lib/store/wait_file.c \
	lib/store/wait_name.c \
	lib/channel/adaptive_lock.c \
	lib/channel/adaptive_lock.h \
	lib/channel/channel.c \
	lib/channel/channel.h \
	lib/channel/channel_create.c \
	lib/channel/channel_fd.c \
	lib/channel/channel_info.c \
	lib/channel/channel_map.c \
	lib/channel/channel_watch.c \
	lib/channel/item_leases.c \
	lib/channel/record.c \
	lib/channel/item.c \
	lib/channel/leave.c \
	lib/channel/member.c \
	lib/channel/slot.c \
	lib/set/digest.c \
	lib/set/digest.h \
	lib/set/digests.c \
	lib/set/digests.h \
	lib/set/elements.c \
	lib/set/elements.h \
	lib/set/fields.c \
	lib/set/form.c \
	lib/set/form.h \
	lib/set/place.c \
	lib/set/place.h \
	lib/set/refit.c \
	lib/set/refit.h \
	lib/set/refit_digests.c \
	lib/set/refit_names.c \
	lib/set/refit_patch.c \
	lib/set/refit_put.c \
	lib/set/refit_run.c \
	lib/set/refit_sparse.c \
	lib/set/refit_tip.c \
	lib/set/refit_write.c \
	lib/set/rows.c \
	lib/set/rows.h \
	lib/data/chain.c \
	lib/data/columns.c \
	lib/data/ahead.c \
	lib/data/ahead.h \
	lib/data/alone.c \
	lib/data/alone.h \
	lib/data/batch.c \
	lib/data/batch.h \
	lib/data/batch_plan.c \
	lib/data/dataset.c \
	lib/data/dataset.h \
	lib/data/feed.c \
	lib/data/feed.h \
	lib/data/feed_name.c \
	lib/data/feed_turn.c \
	lib/data/fork_lock.c \
	lib/data/fork_lock.h \
	lib/data/get.c \
	lib/data/index.c \
	lib/data/key.h \
	lib/data/loader.c \
	lib/data/loader.h \
	lib/data/loader_open.c \
	lib/data/mixture.c \
	lib/data/order.c \
	lib/data/plan.c \
	lib/data/plan.h \
	lib/data/record.c \
	lib/data/record.h \
	lib/data/shard.h \
	lib/data/shard_index.c \
	lib/data/shard_read.c \
	lib/data/shards.c \
	lib/data/shards_open.c \
	lib/data/side_car.c \
	lib/data/side_car.h \
	lib/data/pool.c \
	lib/data/pool.h \
	lib/data/reader.c \
	lib/data/reader.h \
	lib/data/reader_request.c \
	lib/data/source.c \
	lib/data/source.h \
	lib/data/source_open.c \
	lib/data/state.c \
	lib/data/table.c \
	lib/data/table_beside.c \
	lib/data/tar.c \
	lib/data/tar.h \
	lib/data/tar_head.c \
	lib/data/tokens.c \
	lib/data/tokens.h \
	lib/dlpack/dlpack.h \
	lib/dlpack/from_dlpack.c \
	lib/dlpack/to_dlpack.c \
	lib/dlpack/types.c \
	$(NULL)
if HAVE_LIBURING
lib_libcore_la_SOURCES += lib/io/io_uring.c
else
lib_libcore_la_SOURCES += lib/io/io_uring_none.c
endif
EXTRA_DIST += lib/cuda/embed.sh lib/cuda/kernels.cu
if HAVE_CUDA
lib_libcore_la_SOURCES += \
	lib/cuda/boxes.c \
	lib/cuda/cuda.c \
	lib/cuda/device.c \
	lib/cuda/device.h \
	lib/cuda/driver.c \
	lib/cuda/driver.h \
	lib/cuda/kernel.c \
	lib/cuda/kernel.h \
	lib/cuda/memory.c \
	lib/cuda/move.c \
	lib/cuda/move.h \
	lib/cuda/move_loops.h \
	lib/cuda/queue.c \
	lib/cuda/queue.h \
	lib/cuda/ranges.c \
	lib/cuda/ranges.h \
	lib/cuda/room.c \
	lib/cuda/room.h \
	lib/cuda/slot.c \
	lib/cuda/slot.h \
	lib/cuda/steps.c \
	$(NULL)
else
lib_libcore_la_SOURCES += lib/cuda/cuda_none.c
endif

# The kernels: code for the devices that are named, and for newer ones text that
# their driver compiles. Products are not fused with sums, as on the host.
KERNELS = lib/cuda/kernels.fatbin
if HAVE_NVCC
nodist_lib_libcore_la_SOURCES = lib/cuda/kernel_image.c
CLEANFILES += $(KERNELS) lib/cuda/kernel_image.c
$(KERNELS): lib/cuda/kernels.cu lib/cuda/kernels.h lib/cuda/kernel_steps.h \
		lib/cuda/list_steps.h lib/cuda/element.h \
		lib/number/convert_element.h lib/number/word_sums.h
	$(AM_V_GEN)$(MKDIR_P) lib/cuda && \
	$(NVCC) -fatbin -std=c++17 -O3 -fmad=false -Xfatbin --compress-all \
		-gencode arch=compute_80,code=sm_80 \
		-gencode arch=compute_90,code=sm_90 \
		-gencode arch=compute_75,code=compute_75 \
		-I$(top_srcdir)/lib/include -I$(top_srcdir) \
		-o $@.new $(top_srcdir)/lib/cuda/kernels.cu && mv $@.new $@
lib/cuda/kernel_image.c: $(KERNELS) lib/cuda/embed.sh
	$(AM_V_GEN)$(SHELL) $(top_srcdir)/lib/cuda/embed.sh $(KERNELS) >$@.new && \
	mv $@.new $@
else
if HAVE_CUDA
lib_libcore_la_SOURCES += lib/cuda/kernel_none.c
endif
endif
lib_libcore_la_CPPFLAGS = \
	$(AM_CPPFLAGS) \
	$(CUDA_CFLAGS) \
	$(JANSSON_CFLAGS) \
	$(LIBURING_CFLAGS) \
	$(XXHASH_CFLAGS) \
	$(ZLIB_CFLAGS) \
	-DTARND_PATH='"$(sbindir)/tarnd"' \
	$(NULL)
lib_libcore_la_LIBADD = \
	lib/libmove.la \
	shm/libshm.la \
	$(JANSSON_LIBS) \
	$(LIBURING_LIBS) \
	$(ZLIB_LIBS) \
	-lm \
	$(NULL)

# A bundle's has no version: who carries it along has this one.
if BUNDLE
lib_libcore_la_SOURCES += lib/bundle.c
LIBTARN_VERSION = -avoid-version -Wl,--wrap=stdin
else
LIBTARN_VERSION = -version-info 0:0:0
endif

lib_LTLIBRARIES += lib/libtarn.la
lib_libtarn_la_SOURCES =
lib_libtarn_la_LIBADD = lib/libcore.la
lib_libtarn_la_LDFLAGS = \
	$(AM_LDFLAGS) \
	$(LIBTARN_VERSION) \
	-Wl,--version-script=$(top_srcdir)/lib/libtarn.map \
	-Wl,-z,relro,-z,now \
	-Wl,-Bsymbolic-functions \
	$(NULL)
EXTRA_lib_libtarn_la_DEPENDENCIES = lib/libtarn.map
EXTRA_DIST += lib/libtarn.map lib/include/tarn/.clang-format

tarnincludedir = $(includedir)/tarn
tarninclude_HEADERS = \
	lib/include/tarn/attributes.h \
	lib/include/tarn/channel.h \
	lib/include/tarn/copy.h \
	lib/include/tarn/cuda.h \
	lib/include/tarn/data.h \
	lib/include/tarn/descriptor.h \
	lib/include/tarn/dlpack.h \
	lib/include/tarn/dlpack_abi.h \
	lib/include/tarn/dtype.h \
	lib/include/tarn/error.h \
	lib/include/tarn/file.h \
	lib/include/tarn/gather.h \
	lib/include/tarn/layout.h \
	lib/include/tarn/loader.h \
	lib/include/tarn/node.h \
	lib/include/tarn/report.h \
	lib/include/tarn/segments.h \
	lib/include/tarn/publish.h \
	lib/include/tarn/save.h \
	lib/include/tarn/set.h \
	lib/include/tarn/snapshot.h \
	lib/include/tarn/store.h \
	lib/include/tarn/tarn.h \
	lib/include/tarn/tensor.h \
	lib/include/tarn/version.h \
	$(NULL)

pkgconfig_DATA = lib/tarn.pc
