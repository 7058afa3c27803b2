#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The harness itself: a test that leaks, hangs or crashes must be reported,
# and what it left must be gone afterwards; a good one passes untouched.
# shellcheck disable=SC2016 # the scripts in quotes are run by others

run=${top_builddir:?set by tests/run}/tests/run
out=$TMPDIR/out
count=0

ok() { # STATUS WHAT: a result line, and on failure what was seen
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		sed 's/^/# seen: /' "$out"
	fi
}

is_gone() { # PID
	! kill -0 "$1" 2>/dev/null
}

judge() { # COMMAND...: runs it under the harness, its output in $out
	TARN_TEST_TIMEOUT=${limit:-120} TARN_POOL=x NOTIFY_SOCKET=x \
		LISTEN_FDS=1 "$run" "$@" >"$out" 2>&1
}

judge bash -c 'echo ok 1; echo 1..1'
ok $? "a test that cleans up passes"
! grep -q 'Bail out' "$out"
ok $? "the harness adds no complaint to a clean test"

# A child's work counts too.
judge bash -c 'printf "ok 1\n1..1"; bash -c "
	for ((i = 0; i < 300000; i++)); do :; done"; sleep 0.3'
tail -n 1 "$out" | grep -qE '^# took [0-9]+\.[0-9] s, [0-9]+\.[0-9] s of CPU$' &&
	! tail -n 1 "$out" | grep -qE 'took 0\.[0-2]|, 0\.0 s of' &&
	grep -qx '1\.\.1' "$out"
ok $? "the time of a test is the last line, on a line of its own"

judge bash -c 'exit 7'
[ $? -eq 7 ]
ok $? "the exit status of a test is passed on"

judge bash -c 'echo x >"$TMPDIR/forgotten"; echo ok 1; echo 1..1'
[ $? -eq 99 ]
ok $? "a file left in TMPDIR fails the test"
grep -q 'Bail out! left behind: file tmp/forgotten (2 bytes)' "$out"
ok $? "a file left in TMPDIR is named"

judge bash -c 'echo x >"$XDG_RUNTIME_DIR/socket"'
grep -q 'left behind: file run/socket' "$out"
ok $? "a file left in XDG_RUNTIME_DIR is named"

judge bash -c ': >"$TMPDIR/a.lock"; mkdir "$TMPDIR/empty"'
ok $? "an empty lock file and an empty folder are let pass"

judge bash -c 'echo "# $TMPDIR"; mkdir "$TMPDIR/a"; : >"$TMPDIR/a/b"
	chmod 0 "$TMPDIR/a"'
grep -q 'left behind' "$out" && [ ! -e "$(sed -n 's/^# //p' "$out")" ]
ok $? "a folder without permissions is looked into and removed"

# What does not end by itself need not be given long to.
export TARN_TEST_GRACE=2
judge bash -c 'sleep 100 & echo "pid $!"'
grep -q 'Bail out! left behind: process [0-9]* (sleep 100)' "$out"
ok $? "a child left running is named"
is_gone "$(sed -n 's/^pid //p' "$out")"
ok $? "a child left running is ended"

# As a daemon does it: a session of its own, no environment, orphaned.
judge bash -c 'setsid env -i sleep 101 </dev/null >/dev/null 2>&1 &
	echo "pid $!"; disown; exit 0'
grep -q 'left behind: process [0-9]* (sleep 101)' "$out"
ok $? "a detached process without our environment is named"
is_gone "$(sed -n 's/^pid //p' "$out")"
ok $? "a detached process without our environment is ended"

unset TARN_TEST_GRACE
judge bash -c 'sleep 0.3 & exit 0'
ok $? "a process that ends by itself in a moment is no complaint"

limit=5 judge bash -c 'sleep 102 & echo "pid $!"; printf "half a line"; wait'
[ $? -eq 99 ]
ok $? "a test that hangs fails"
grep -q '^Bail out! timed out after 5 s: .*sleep 102' "$out"
ok $? "a test that hangs is named by its processes, on a line of its own"
is_gone "$(sed -n 's/^pid //p' "$out")"
ok $? "the child of a test that hangs is ended"

printf 'import tap, time\ndef sleeps():\n time.sleep(102)\nsleeps()\n' \
	>"$TMPDIR/slow.py"
TARN_TEST_TIMEOUT=10 "$run" "$PYTHON" "$TMPDIR/slow.py" >"$out" 2>&1
grep -q 'line 3 in sleeps' "$out"
ok $? "a test in Python that hangs says where"
rm "$TMPDIR/slow.py"

printf '#!/bin/bash\n# Time-out: 1 s\nsleep 102\n' >"$TMPDIR/slow"
env -u TARN_TEST_TIMEOUT "$run" bash "$TMPDIR/slow" >"$out" 2>&1
grep -q '^Bail out! timed out after 1 s' "$out"
ok $? "a script may have a time-out of its own"
TARN_TEST_TIMEOUT=2 "$run" bash "$TMPDIR/slow" >"$out" 2>&1
grep -q '^Bail out! timed out after 2 s' "$out"
ok $? "the time-out of the environment goes before a script's"
rm "$TMPDIR/slow"

judge bash -c 'kill -SEGV $$'
[ $? -eq 99 ]
ok $? "a test that crashes fails"
grep -q 'Bail out! killed by signal 11' "$out"
ok $? "the signal of a test that crashes is named"

judge "$TMPDIR/no-such-program"
grep -q 'Bail out! cannot run .*no-such-program: No such file' "$out"
ok $? "a test that is not there is named"

judge bash -c 'echo x >"/dev/shm/$TARN_TEST_ID-x" && echo "# $TARN_TEST_ID"'
if grep -q '^# ' "$out"; then
	grep -q 'left behind: shared memory /dev/shm/tarn-t' "$out" &&
		[ ! -e "/dev/shm/$(sed -n 's/^# //p' "$out")-x" ]
	ok $? "shared memory left behind is named and removed"
else
	count=$((count + 1))
	echo "ok $count # SKIP /dev/shm cannot be written here"
fi

judge bash -c 'mkdir "/tmp/$TARN_TEST_ID-x"; : >"/tmp/$TARN_TEST_ID-x/y"
	echo "# $TARN_TEST_ID"'
grep -q 'left behind: folder /tmp/tarn-t' "$out" &&
	[ ! -e "/tmp/$(sed -n 's/^# \(tarn\)/\1/p' "$out")-x" ]
ok $? "a folder for other users is named and removed"

# Below our own, as tests of limits make them, where we may.
group=$(sed -n 's,^[0-9]*:memory:,/sys/fs/cgroup/memory,p' /proc/self/cgroup)
: "${group:=$(sed -n 's,^0::,/sys/fs/cgroup,p' /proc/self/cgroup)}"
if mkdir "$group/tarn-try-$$" 2>/dev/null; then
	rmdir "$group/tarn-try-$$"
	# It may end before it has said what its group is: then once more.
	for limit in 5 20 60; do
		judge bash -c 'mkdir "$0/$TARN_TEST_ID" && echo "# $TARN_TEST_ID"
			echo $$ >"$0/$TARN_TEST_ID/cgroup.procs"
			sleep 102' "$group"
		! grep -q '^# tarn' "$out" || break
	done
	unset limit
	grep -q 'timed out' "$out" &&
		[ ! -e "$group/$(sed -n 's/^# \(tarn\)/\1/p' "$out")" ]
	ok $? "the group of a test that hangs is removed"
	judge bash -c 'mkdir "$0/$TARN_TEST_ID"' "$group"
	grep -q "left behind: cgroup $group/tarn-t" "$out"
	ok $? "one that is left behind is named"
else
	count=$((count + 2))
	echo "ok $((count - 1)) # SKIP no cgroup can be made here"
	echo "ok $count # SKIP no cgroup can be made here"
fi

judge bash -c 'test ${#TMPDIR} -lt 60 && test -d "$TMPDIR" &&
	test -d "$XDG_RUNTIME_DIR" && test "$TARN_AUTOSTART" = 0 &&
	test -z "${TARN_SOCKET+set}" && test "${TARN##*/}" = tarn &&
	test "${TARN_DAEMON##*/}" = tarnd && test -z "${TARN_POOL+set}" &&
	test -z "${NOTIFY_SOCKET+set}" && test -z "${LISTEN_FDS+set}"'
ok $? "the environment is private and points at what was built"

TARN_TEST_TIMEOUT=50 "$run" bash -c 'echo "pid $$"; sleep 103' >"$out" 2>&1 &
harness=$!
until grep -q '^pid' "$out"; do sleep 0.05; done
kill -TERM $harness
wait $harness
grep -q 'Bail out! interrupted by signal 15' "$out" &&
	is_gone "$(sed -n 's/^pid //p' "$out")"
ok $? "an interrupted harness ends its test"

rm -f "$out"
echo "1..$count"
