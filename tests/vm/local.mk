# Guests: small machines that qemu makes, each with a kernel of Debian's, the
# programs of this build and a test of what it finds. They take minutes, and
# packages that nothing else needs, so they are a suite of their own: make
# check-vm, or ./bootstrap check-vm. See tests/vm/kit.sh. The slowest begin
# first.
VM_TESTS = \
	tests/vm/aarch64.sh \
	tests/vm/power.sh \
	tests/vm/disks.sh \
	tests/vm/no_uring.sh \
	tests/vm/nodes2.sh \
	tests/vm/user.sh \
	tests/vm/thp.sh \
	tests/vm/nodes4.sh \
	tests/vm/huge.sh \
	tests/vm/small.sh \
	tests/vm/oldest.sh \
	$(NULL)
dist_check_SCRIPTS += $(VM_TESTS)
EXTRA_DIST += \
	tests/vm/apt.sh \
	tests/vm/arm64.sh \
	tests/vm/inside.sh \
	tests/vm/kit.sh \
	tests/vm/linux.sh \
	tests/vm/programs.sh \
	$(NULL)
check_PROGRAMS += \
	tests/vm/cut \
	tests/vm/dioalign \
	tests/vm/saver \
	tests/vm/without_uring \
	$(NULL)
tests_vm_cut_SOURCES = tests/vm/cut.c tests/vm/cut.h
tests_vm_dioalign_LDADD =
tests_vm_saver_SOURCES = tests/vm/cut.h tests/vm/saver.c

# Of the tests' programs, those alone that some guest has.
.PHONY: build-vm check-vm
build-vm check-vm: all
	programs=$$(cd $(srcdir) && bash tests/vm/programs.sh $(VM_TESTS)) && \
	tests= && if test $@ = check-vm; then tests="$(VM_TESTS)"; fi && \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS="$$tests" \
		check_PROGRAMS="$$(echo $$programs)"
