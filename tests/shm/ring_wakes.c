/* SPDX-License-Identifier: MIT */
/*
 * A reaper, a participant that leaves, or one that closes the ring, is killed
 * between any two instructions. The next reaper goes on, and nobody who could go
 * on sleeps.
 *
 * A child is stepped to each instruction of the call, once for each, and killed
 * there; another process is asleep meanwhile.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shm/ring_internal.h"
#include "tests/kit/in_call.h"
#include "tests/kit/ring.h"
#include "tests/kit/stepped.h"
#include "tests/kit/tap.h"

enum { STEPS_MAX = 100000, NAPS = 60000 };

static struct ring old;

static void nap(void)
{
	const struct timespec t = {.tv_nsec = 1000000};

	nanosleep(&t, NULL);
}

/* ---- who sleeps --------------------------------------------------------- */

/* One that waits for the only slot, or for an item. */
static pid_t sleeper(bool for_slot)
{
	pid_t pid = fork();
	struct ring_item item;
	struct ring ring;
	uint32_t slot;
	int r;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ring = kit_ring_join(for_slot ? RING_PRODUCER : RING_CONSUMER, 2);
	ring.spin_max = 0;
	r = for_slot ? ring_wait_acquire(&ring, &kit_ring_forever, &slot)
		     : ring_wait_receive(&ring, &kit_ring_forever, &item);
	_exit(r == (for_slot ? 1 : -EPIPE) ? 0 : 1);
}

static bool is_asleep(pid_t pid)
{
	return (atomic_load(&old.head->items) | atomic_load(&old.head->space)) &
		       RING_ASLEEP &&
	       is_in_call(pid, SYS_futex);
}

static pid_t asleep(bool for_slot)
{
	pid_t pid = sleeper(for_slot);

	for (int i = 0; !is_asleep(pid); i++) {
		if (i == NAPS)
			bail("process %d does not sleep", pid);
		nap();
	}
	return pid;
}

/* It ended, and found what it waited for. */
static bool wakes(pid_t pid)
{
	int status = 0;

	for (int i = 0; i < NAPS; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) && WEXITSTATUS(status) == 0;
		nap();
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return false;
}

/* ---- who is killed, and who comes then ---------------------------------- */

static void reap(void)
{
	struct ring ring = kit_ring_attach();

	ring_reap_owner(&ring, 1);
}

static void leave(void)
{
	ring_leave(&old);
}

static void shut(void)
{
	struct ring ring = kit_ring_attach();

	ring_close(&ring);
}

/* As the server does for a closer that did not take part; or it had not got so
 * far as to close. */
static void finish(void)
{
	struct ring ring = kit_ring_attach();

	ring_finish_close(&ring);
	if (!atomic_load(&old.head->closed))
		ring_close(&ring);
}

/* ---- all of it ---------------------------------------------------------- */

static void test(
	const char *what, void (*call)(void), void (*next)(void), bool for_slot)
{
	bool more = true, woken = true;
	int at = 0;

	for (; more && woken && at < STEPS_MAX; at += STEPPED_STRIDE) {
		pid_t who, killed;

		kit_ring_make_shared(RING_QUEUE, 1);
		old = kit_ring_join(RING_PRODUCER, 1);
		if (for_slot)
			kit_ring_acquire(&old);
		who = asleep(for_slot);
		killed = stepped_start(call);
		more = stepped_go(killed, at);
		stepped_kill(killed);
		next();
		woken = wakes(who);
	}
	ok(at > 10 && woken && !more,
		"%s is killed: a sleeper is woken, after any of %d steps", what,
		at);
}

int main(void)
{
	test("a reaper", reap, reap, true);
	test("a participant that leaves", leave, reap, true);
	test("one that closes", shut, finish, false);
	kit_ring_drop();
	return done(3);
}
