# Small complete programs; they use the public library only.

EXTRA_DIST += \
	examples/hotswap.py \
	examples/networks.py \
	examples/pipeline.py \
	examples/pretrain.py \
	examples/readers.py \
	examples/sglang_weight_cache.py \
	examples/table.py \
	examples/tasks.py \
	examples/vllm_loader.py \
	examples/vllm_weight_transfer.py \
	$(NULL)
noinst_PROGRAMS += \
	examples/consumer \
	examples/dlpack \
	examples/follow \
	examples/make_checkpoint \
	examples/open \
	examples/producer \
	examples/publish \
	examples/quickstart \
	examples/table \
	$(NULL)
examples_consumer_LDADD = lib/libtarn.la
examples_dlpack_LDADD = lib/libtarn.la
examples_follow_LDADD = lib/libtarn.la
examples_make_checkpoint_LDADD =
examples_open_LDADD = lib/libtarn.la
examples_producer_LDADD = lib/libtarn.la
examples_publish_LDADD = lib/libtarn.la
examples_quickstart_LDADD = lib/libtarn.la
examples_table_LDADD = lib/libtarn.la
if HAVE_BLAS
noinst_PROGRAMS += examples/embed examples/networks examples/vad
examples_embed_SOURCES = examples/embed.c examples/minilm.c examples/minilm.h
examples_embed_LDADD = ops/libtarnops.la lib/libtarn.la
examples_networks_LDADD = ops/libtarnops.la lib/libtarn.la -lm
examples_vad_LDADD = ops/libtarnops.la lib/libtarn.la
else
EXTRA_DIST += \
	examples/embed.c \
	examples/minilm.c \
	examples/minilm.h \
	examples/networks.c \
	examples/vad.c \
	$(NULL)
endif
