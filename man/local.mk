# 1 and 8 for the tools, 5 for their files, 7 for the ideas.

dist_man_MANS += \
	man/tarn-channels.7 \
	man/tarn-cuda.7 \
	man/tarn-data.7 \
	man/tarn-doctor.1 \
	man/tarn-nodes.7 \
	man/tarn-numa.7 \
	man/tarn-ops.7 \
	man/tarn-security.7 \
	man/tarn.1 \
	man/tarn.7 \
	man/tarnd.8 \
	man/tarnd.conf.5 \
	$(NULL)

# Section 3 is made from the comments of the public headers.
man/man3/stamp: $(tarninclude_HEADERS) scripts/man3.awk man/tarn.7
	$(AM_V_GEN)rm -rf man/man3 && $(MKDIR_P) man/man3 && \
	date=`sed -n '/^\.Dd/p' $(srcdir)/man/tarn.7` && \
	for header in $(tarninclude_HEADERS); do \
		$(AWK) -f $(srcdir)/scripts/man3.awk -v out=man/man3 \
			-v date="$$date" $(srcdir)/$$header || exit 1; \
	done && : >$@
noinst_DATA += man/man3/stamp
EXTRA_DIST += scripts/man3.awk
install-data-local: man/man3/stamp
	$(MKDIR_P) $(DESTDIR)$(mandir)/man3
	$(INSTALL_DATA) man/man3/*.3 $(DESTDIR)$(mandir)/man3
uninstall-local:
	cd man/man3 && for page in *.3; do \
		rm -f $(DESTDIR)$(mandir)/man3/$$page; \
	done
CLEAN_TARGETS += clean-man3
.PHONY: clean-man3
clean-man3:
	rm -rf man/man3
