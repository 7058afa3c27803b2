# tarn, the command. Its verbs use the public library only; but doctor/ uses the
# probes of base and lib/io themselves, which it links behind the library, so
# that it finds what the daemon would.

bin_PROGRAMS += cli/tarn
cli_tarn_SOURCES = \
	cli/channel.c \
	cli/channel.h \
	cli/channel_end.c \
	cli/channel_ls.c \
	cli/channel_rows.c \
	cli/channel_rows.h \
	cli/channel_stat.c \
	cli/channel_table.c \
	cli/channel_table.h \
	cli/channel_tail.c \
	cli/channel_top.c \
	cli/check.c \
	cli/address.c \
	cli/address.h \
	cli/change.c \
	cli/change.h \
	cli/cli.h \
	cli/completion.c \
	cli/copy.c \
	cli/data.c \
	cli/data.h \
	cli/data_bench.c \
	cli/data_cat.c \
	cli/data_info.c \
	cli/data_open.c \
	cli/data_records.c \
	cli/doctor/daemon.c \
	cli/doctor/doctor.c \
	cli/doctor/doctor.h \
	cli/doctor/files.c \
	cli/doctor/findings.c \
	cli/doctor/gpu.c \
	cli/doctor/machine.c \
	cli/doctor/memory.c \
	cli/doctor/nodes.c \
	cli/doctor/output.c \
	cli/doctor/pages.c \
	cli/doctor/reading.c \
	cli/doctor/system.c \
	cli/draw.c \
	cli/draw.h \
	cli/draw_walk.c \
	cli/ending.c \
	cli/ending.h \
	cli/gauge.c \
	cli/gauge.h \
	cli/held.c \
	cli/held.h \
	cli/info.c \
	cli/json.c \
	cli/json.h \
	cli/listing.c \
	cli/listing.h \
	cli/live.c \
	cli/live.h \
	cli/load.c \
	cli/load_together.c \
	cli/load_together.h \
	cli/ls.c \
	cli/ls.h \
	cli/main.c \
	cli/metrics.c \
	cli/migrate.c \
	cli/node_copy.c \
	cli/node_copy.h \
	cli/suggest.c \
	cli/suggest.h \
	cli/options.c \
	cli/options.h \
	cli/print.c \
	cli/progress.c \
	cli/progress.h \
	cli/put.c \
	cli/raw.c \
	cli/raw.h \
	cli/replicate.c \
	cli/rm.c \
	cli/save.c \
	cli/message.c \
	cli/message.h \
	cli/sink.c \
	cli/sink.h \
	cli/source.c \
	cli/source.h \
	cli/status.c \
	cli/status.h \
	cli/status_json.c \
	cli/status_nodes.c \
	cli/status_tables.c \
	cli/status_text.c \
	cli/screen.c \
	cli/screen.h \
	cli/stop.c \
	cli/store.c \
	cli/store.h \
	cli/size.c \
	cli/size.h \
	cli/text.c \
	cli/text.h \
	cli/top.c \
	cli/top.h \
	cli/top_picture.c \
	cli/verbs.c \
	cli/verbs.h \
	cli/verify.c \
	cli/view.c \
	cli/wait.c \
	$(NULL)
cli_tarn_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
EXTRA_DIST += \
	cli/bash-completion/tarn \
	cli/fish-completion/tarn.fish \
	cli/zsh-completion/_tarn \
	$(NULL)
if !BUNDLE
bashcompletiondir = $(datadir)/bash-completion/completions
bashcompletion_DATA = cli/bash-completion/tarn
fishcompletiondir = $(datadir)/fish/vendor_completions.d
fishcompletion_DATA = cli/fish-completion/tarn.fish
zshcompletiondir = $(datadir)/zsh/site-functions
zshcompletion_DATA = cli/zsh-completion/_tarn
endif
# A bundle's lies in bin/, below libtarn.
if BUNDLE
cli_tarn_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath,'$$ORIGIN/..'
endif
cli_tarn_LDADD = lib/libtarn.la lib/libcore.la $(JANSSON_LIBS) -lm
