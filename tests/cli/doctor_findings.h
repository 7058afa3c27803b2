/* SPDX-License-Identifier: MIT */
/* What is to be found, for the tests of tarn doctor. */
#pragma once

#include "cli/doctor/doctor.h"

struct wanted {
	const char *key;
	enum worth worth;
	const char *value;  /* a part of it */
	const char *remedy; /* the same */
};

const struct finding *doctor_finding(const struct findings *f, const char *key);
/* A test point: on says of what machine. */
void doctor_wants(const struct findings *findings, const struct wanted *w,
	const char *on);
/* Each finding is whole: advice has a cost and says what to do. */
void doctor_are_whole(const struct findings *f, const char *on);
/* All that is found on a machine. */
struct findings doctor_look(const struct machine *machine);
