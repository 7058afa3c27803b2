# Small complete programs; they use the public library only.

noinst_PROGRAMS += \
	examples/make_checkpoint \
	examples/open \
	examples/quickstart \
	$(NULL)
examples_make_checkpoint_LDADD =
examples_open_LDADD = lib/libtarn.la
examples_quickstart_LDADD = lib/libtarn.la
