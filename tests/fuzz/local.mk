# Fuzz targets, see tests/fuzz/README.md. As tests they are run over their
# corpus by any compiler; with --enable-fuzzers each is a libFuzzer as well.

# NAME.c and what else it is made of.
FUZZ_TESTS = \
	tests/fuzz/archive \
	tests/fuzz/channel \
	tests/fuzz/data_index \
	tests/fuzz/descriptor \
	tests/fuzz/expression \
	tests/fuzz/index \
	tests/fuzz/npy \
	tests/fuzz/safetensors \
	tests/fuzz/tar \
	tests/fuzz/values \
	tests/fuzz/wire \
	$(NULL)
FUZZ_FILES = tests/fuzz/files.c tests/fuzz/files.h
FUZZ_POKES = tests/fuzz/input.h tests/fuzz/ring_poke.c tests/fuzz/ring_poke.h
FUZZ_TEXT = tests/fuzz/text.c tests/fuzz/text.h
FUZZ_SERVER = \
	$(FUZZ_POKES) \
	tests/fuzz/wire_channel.c \
	tests/fuzz/wire_channel.h \
	tests/fuzz/wire_keeper.c \
	tests/fuzz/wire_keeper.h \
	tests/fuzz/wire_loader.c \
	tests/fuzz/wire_peer.c \
	tests/fuzz/wire_peer.h \
	tests/fuzz/wire_reply.c \
	tests/fuzz/wire_reply.h \
	tests/fuzz/wire_server.c \
	tests/fuzz/wire_server.h \
	$(NULL)
FUZZ_RUN = \
	tests/fuzz/fuzz.h \
	tests/fuzz/mutate.c \
	tests/fuzz/mutate.h \
	tests/fuzz/run.c \
	$(NULL)
FUZZ_JSON_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
FUZZ_JSON_LIBS = $(WHITEBOX_LIBS) $(JANSSON_LIBS)

# What libFuzzer found interesting is one archive a target: thousands of small
# files would be most of the tree's.
FUZZ_ARCHIVES = $(FUZZ_TESTS:tests/fuzz/%=tests/fuzz/corpus/%.tar.gz)
tests/fuzz/found/stamp: $(FUZZ_ARCHIVES)
	$(AM_V_GEN)rm -rf tests/fuzz/found && \
	for name in $(FUZZ_TESTS:tests/fuzz/%=%); do \
		$(MKDIR_P) tests/fuzz/found/$$name && \
		tar xzf $(srcdir)/tests/fuzz/corpus/$$name.tar.gz \
			-C tests/fuzz/found/$$name || exit 1; \
	done && : >$@
check_DATA = tests/fuzz/found/stamp
CLEAN_TARGETS += clean-found
.PHONY: clean-found
clean-found:
	rm -rf tests/fuzz/found

check_PROGRAMS += $(FUZZ_TESTS)
TESTS += $(FUZZ_TESTS)
tests_fuzz_archive_SOURCES = tests/fuzz/archive.c $(FUZZ_FILES) $(FUZZ_RUN)
tests_fuzz_channel_SOURCES = \
	tests/fuzz/channel.c $(FUZZ_POKES) $(FUZZ_RUN)
tests_fuzz_data_index_SOURCES = tests/fuzz/data_index.c $(FUZZ_RUN)
tests_fuzz_descriptor_SOURCES = \
	tests/fuzz/descriptor.c $(FUZZ_RUN)
tests_fuzz_expression_SOURCES = \
	tests/fuzz/expression.c $(FUZZ_TEXT) $(FUZZ_RUN)
tests_fuzz_index_SOURCES = tests/fuzz/index.c $(FUZZ_RUN)
tests_fuzz_index_CPPFLAGS = $(FUZZ_JSON_CPPFLAGS)
tests_fuzz_index_LDADD = $(FUZZ_JSON_LIBS)
tests_fuzz_npy_SOURCES = tests/fuzz/npy.c $(FUZZ_FILES) $(FUZZ_RUN)
tests_fuzz_safetensors_SOURCES = \
	tests/fuzz/safetensors.c $(FUZZ_FILES) $(FUZZ_RUN)
tests_fuzz_safetensors_CPPFLAGS = $(FUZZ_JSON_CPPFLAGS)
tests_fuzz_safetensors_LDADD = $(FUZZ_JSON_LIBS)
tests_fuzz_tar_SOURCES = tests/fuzz/tar.c $(FUZZ_RUN)
tests_fuzz_values_SOURCES = tests/fuzz/values.c $(FUZZ_TEXT) $(FUZZ_RUN)
tests_fuzz_wire_SOURCES = tests/fuzz/wire.c $(FUZZ_SERVER) $(FUZZ_RUN)
tests_fuzz_wire_LDADD = $(DAEMON_LIBS)

if FUZZERS
LIBFUZZER = $(AM_LDFLAGS) -fsanitize=fuzzer
noinst_PROGRAMS += \
	tests/fuzz/fuzz_archive \
	tests/fuzz/fuzz_channel \
	tests/fuzz/fuzz_data_index \
	tests/fuzz/fuzz_descriptor \
	tests/fuzz/fuzz_expression \
	tests/fuzz/fuzz_index \
	tests/fuzz/fuzz_npy \
	tests/fuzz/fuzz_safetensors \
	tests/fuzz/fuzz_tar \
	tests/fuzz/fuzz_values \
	tests/fuzz/fuzz_wire \
	$(NULL)
tests_fuzz_fuzz_archive_SOURCES = tests/fuzz/archive.c $(FUZZ_FILES)
tests_fuzz_fuzz_archive_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_channel_SOURCES = \
	tests/fuzz/channel.c $(FUZZ_POKES)
tests_fuzz_fuzz_channel_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_data_index_SOURCES = tests/fuzz/data_index.c
tests_fuzz_fuzz_data_index_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_descriptor_SOURCES = tests/fuzz/descriptor.c
tests_fuzz_fuzz_descriptor_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_expression_SOURCES = tests/fuzz/expression.c $(FUZZ_TEXT)
tests_fuzz_fuzz_expression_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_index_SOURCES = tests/fuzz/index.c
tests_fuzz_fuzz_index_CPPFLAGS = $(FUZZ_JSON_CPPFLAGS)
tests_fuzz_fuzz_index_LDADD = $(FUZZ_JSON_LIBS)
tests_fuzz_fuzz_index_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_npy_SOURCES = tests/fuzz/npy.c $(FUZZ_FILES)
tests_fuzz_fuzz_npy_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_safetensors_SOURCES = tests/fuzz/safetensors.c $(FUZZ_FILES)
tests_fuzz_fuzz_safetensors_CPPFLAGS = $(FUZZ_JSON_CPPFLAGS)
tests_fuzz_fuzz_safetensors_LDADD = $(FUZZ_JSON_LIBS)
tests_fuzz_fuzz_safetensors_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_tar_SOURCES = tests/fuzz/tar.c
tests_fuzz_fuzz_tar_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_values_SOURCES = tests/fuzz/values.c $(FUZZ_TEXT)
tests_fuzz_fuzz_values_LDFLAGS = $(LIBFUZZER)
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/wire.c $(FUZZ_SERVER)
tests_fuzz_fuzz_wire_LDADD = $(DAEMON_LIBS)
tests_fuzz_fuzz_wire_LDFLAGS = $(LIBFUZZER)
endif

EXTRA_DIST += \
	scripts/fuzz \
	tests/fuzz/README.md \
	tests/fuzz/corpus \
	tests/fuzz/archive.dict \
	tests/fuzz/channel.dict \
	tests/fuzz/data_index.dict \
	tests/fuzz/descriptor.dict \
	tests/fuzz/expression.dict \
	tests/fuzz/index.dict \
	tests/fuzz/npy.dict \
	tests/fuzz/safetensors.dict \
	tests/fuzz/tar.dict \
	tests/fuzz/values.dict \
	tests/fuzz/wire.dict \
	$(NULL)
