// SPDX-License-Identifier: MIT
/*
 * The engine and its buffers, files and registered memory. They are freed in
 * the reverse order, and only when no request is under way: memory that the
 * kernel may still write to is leaked rather than reused.
 */
#include "lib/copy/copy_env.h"

#include <time.h>

/* The first of the engine's buffers for bounce buffers; those below are for
 * registered memory: half for each. */
enum { FIRST_BOUNCE = TARN_IO_BUFFERS / 2 };

/* An engine that fails may lack memory for a moment: it is called again for
 * about ten seconds. */
enum { TRIES = 1000, PAUSE_NS = 10000000 };

int copy_env_open(struct copy_env *env, const char *engine, uint64_t buffer,
	bool with_regions)
{
	int r;

	*env = (struct copy_env) {.windows_max = buffer};
	r = tarn_io_new_named(engine, -1, &env->io);
	if (r >= 0)
		r = bounce_new(env->io, buffer, FIRST_BOUNCE, &env->bounce);
	if (r >= 0)
		r = file_slots_new(env->io, &env->files);
	if (r >= 0 && with_regions)
		r = regions_new(env->io, FIRST_BOUNCE, &env->regions);
	if (r < 0)
		copy_env_close(env);
	return r;
}

int copy_env_drain(struct copy_env *env)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int r = 0;

	for (int i = 0; env->io && tarn_io_pending(env->io) && i < TRIES;) {
		r = tarn_io_submit_and_wait(
			env->io, tarn_io_pending(env->io), -1);
		if (r >= 0)
			continue;
		nanosleep(&pause, NULL);
		i++;
	}
	return env->io && tarn_io_pending(env->io) ? r : 0;
}

void copy_env_close(struct copy_env *env)
{
	env->regions = regions_free(env->regions);
	env->files = file_slots_free(env->files);
	env->bounce = bounce_free(env->bounce);
	env->io = tarn_io_free(env->io);
}
