# TAP programs and scripts. Each runs in a folder of its own, with a time-out;
# tests/run complains about whatever is left behind.

check_LTLIBRARIES = tests/libtap.la
tests_libtap_la_SOURCES = tests/tap.c tests/tap.h

TEST_EXTENSIONS = .sh .py
TARN_TAP_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = $(TARN_TAP_DRIVER)
SH_LOG_DRIVER = $(TARN_TAP_DRIVER)
PY_LOG_DRIVER = $(TARN_TAP_DRIVER)

# White-box tests link all of the library with nothing hidden.
WHITEBOX_LIBS = tests/libtap.la lib/libcore.la
