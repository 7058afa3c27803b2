LIB_TESTS = \
	tests/lib/abi \
	tests/lib/convert \
	tests/lib/copy \
	tests/lib/copy_read \
	tests/lib/copy_read_fails \
	tests/lib/copy_relay \
	tests/lib/copy_write \
	tests/lib/copy_write_fails \
	tests/lib/dlpack \
	tests/lib/dlpack_import \
	tests/lib/dtype \
	tests/lib/swar \
	tests/lib/file_lock \
	tests/lib/file_map \
	tests/lib/fill \
	tests/lib/fill_fails \
	tests/lib/fill_faults \
	tests/lib/fuzz_files \
	tests/lib/gather \
	tests/lib/gather_refused \
	tests/lib/head \
	tests/lib/io_engine \
	tests/lib/layout_expr \
	tests/lib/layout_make \
	tests/lib/layout_pairs \
	tests/lib/load_file \
	tests/lib/move \
	tests/lib/move_bytes \
	tests/lib/nest \
	tests/lib/npy \
	tests/lib/number \
	tests/lib/print \
	tests/lib/read_plan \
	tests/lib/replace \
	tests/lib/replace_planted \
	tests/lib/replace_rights \
	tests/lib/reshape_explain \
	tests/lib/io_mode \
	tests/lib/safetensors \
	tests/lib/safetensors_cases \
	tests/lib/safetensors_plain \
	tests/lib/save \
	tests/lib/save_faults \
	tests/lib/save_power \
	tests/lib/save_refused \
	tests/lib/shards \
	tests/lib/storage \
	tests/lib/stream \
	tests/lib/stream_attack \
	tests/lib/stream_file \
	tests/lib/stream_holds \
	tests/lib/stream_poll \
	tests/lib/stream_slots \
	tests/lib/stream_stuck \
	tests/lib/tensor \
	tests/lib/tensor_copy \
	tests/lib/tensor_create \
	tests/lib/tensor_ops \
	tests/lib/verify \
	$(NULL)
LIB_SCRIPT_TESTS = \
	tests/lib/convert_numpy.py \
	tests/lib/copy_numpy.py \
	tests/lib/make_checkpoint.py \
	tests/lib/npy_numpy.py \
	tests/lib/print_numpy.py \
	tests/lib/save_reference.py \
	tests/lib/view_cli.sh \
	tests/lib/view_numpy.py \
	$(NULL)
check_PROGRAMS += \
	$(LIB_TESTS) \
	tests/lib/apply_tool \
	tests/lib/convert_tool \
	tests/lib/copy_tool \
	tests/lib/file_tool \
	tests/lib/print_tool \
	tests/lib/save_tool \
	$(NULL)
dist_check_SCRIPTS += $(LIB_SCRIPT_TESTS)
TESTS += $(LIB_TESTS) $(LIB_SCRIPT_TESTS)
VALGRIND_EXCEPT += tests/lib/io_mode

tests_lib_convert_SOURCES = \
	tests/kit/convert_oracle.c \
	tests/kit/convert_oracle.h \
	tests/lib/convert.c \
	$(NULL)
tests_lib_convert_CFLAGS = $(AM_CFLAGS) $(TARN_VECTOR_CFLAGS)
tests_lib_copy_read_fails_SOURCES = \
	tests/kit/fault_engine.c \
	tests/kit/fault_engine.h \
	tests/lib/copy_read_fails.c \
	$(NULL)
tests_lib_fill_faults_SOURCES = \
	tests/kit/fault_engine.c \
	tests/kit/fault_engine.h \
	tests/lib/fill_faults.c \
	$(NULL)
tests_lib_fuzz_files_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_lib_fuzz_files_LDADD = $(WHITEBOX_LIBS) $(JANSSON_LIBS)
tests_lib_safetensors_plain_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_lib_save_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_lib_save_faults_SOURCES = \
	tests/kit/save_calls.c \
	tests/kit/save_calls.h \
	tests/lib/save_faults.c \
	$(NULL)
tests_lib_save_power_SOURCES = \
	tests/kit/save_calls.c \
	tests/kit/save_calls.h \
	tests/lib/save_power.c \
	$(NULL)
tests_lib_verify_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_lib_verify_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=name_index_next
