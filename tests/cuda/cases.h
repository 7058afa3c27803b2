/* SPDX-License-Identifier: MIT */
/*
 * Cases that each need the stand-in for the driver (tests/fakecuda) with
 * settings of their own: each is this program anew, since a process loads the
 * driver once. A case fails if a check does, or if the account of the stand-in
 * does not add up at its end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SETTINGS_MAX 4

struct case_ {
	const char *name;
	/* A sentence: the behaviour; NULL: other cases run it. */
	const char *what;
	void (*run)(void);
	const char *settings[SETTINGS_MAX]; /* "DEVICES=2" */
};

/* Runs them all, or in one of them that one; the exit status. */
int cases_main(int argc, char **argv, const struct case_ *cases, int n);

/* In a case: prints the text if it does not hold. */
bool check(bool holds, const char *what, ...)
	__attribute__((__format__(printf, 2, 3)));
/* That call failed so, and its sentence has that part. */
bool check_failed(int wanted, const char *part, int r, const char *what);

/* 1 if it is an error, which must have a sentence; else 0. */
int check_says(int r, const char *what);

/* For a child: its exit status, 0 if all checks have held. */
int check_result(void);
/* How many have not. */
int check_failures(void);

/* A setting from here on. */
void case_set(const char *name, const char *value);

/* The stand-in's counts: calls, registrations, bytes; 0 if it is not loaded. */
uint64_t count_calls(void);
/* Calls of one function, as fakecuda.h names it: "COPY_2D". */
uint64_t count_of(const char *name);
uint64_t count_registrations(void);
uint64_t count_bytes(void);
uint64_t count_waiting(void); /* registrations, at their gate */
bool driver_is_loaded(void);
