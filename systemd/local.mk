# Units for systemd. Names of a user's own are those of the system's, so they
# are made in folders of their own.

EXTRA_DIST += \
	systemd/tarnd-user.service.in \
	systemd/tarnd-user.socket \
	systemd/tarnd.service.in \
	systemd/tarnd.socket \
	$(NULL)
systemd_units = \
	systemd/system/tarnd.service \
	systemd/system/tarnd.socket \
	systemd/user/tarnd.service \
	systemd/user/tarnd.socket \
	$(NULL)
CLEANFILES += $(systemd_units)

systemd_made = $(AM_V_GEN)$(MKDIR_P) $(@D) && \
	sed 's,@sbindir[@],$(sbindir),g'

systemd/system/tarnd.service: $(srcdir)/systemd/tarnd.service.in Makefile
	$(systemd_made) $(srcdir)/systemd/tarnd.service.in >$@
systemd/system/tarnd.socket: $(srcdir)/systemd/tarnd.socket Makefile
	$(systemd_made) $(srcdir)/systemd/tarnd.socket >$@
systemd/user/tarnd.service: $(srcdir)/systemd/tarnd-user.service.in Makefile
	$(systemd_made) $(srcdir)/systemd/tarnd-user.service.in >$@
systemd/user/tarnd.socket: $(srcdir)/systemd/tarnd-user.socket Makefile
	$(systemd_made) $(srcdir)/systemd/tarnd-user.socket >$@

if HAVE_SYSTEMD
nodist_systemdsystemunit_DATA = \
	systemd/system/tarnd.service \
	systemd/system/tarnd.socket \
	$(NULL)
nodist_systemduserunit_DATA = \
	systemd/user/tarnd.service \
	systemd/user/tarnd.socket \
	$(NULL)
endif
