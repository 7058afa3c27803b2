/* SPDX-License-Identifier: MIT */
/*
 * Bars and curves of channels: as wide as they should be, whatever the
 * numbers, and nothing that there is is rounded away.
 */
#include "cli/gauge.h"

#include <string.h>

#include "base/checked.h"
#include "tests/kit/tap.h"

static const char *slots(char *buf, int columns, uint32_t reading,
	uint32_t ready, uint32_t filling, uint32_t free)
{
	const uint32_t counts[GAUGE_KINDS] = {
		[GAUGE_READING] = reading,
		[GAUGE_READY] = ready,
		[GAUGE_FILLING] = filling,
		[GAUGE_FREE] = free,
	};

	gauge_slots(buf, columns, counts);
	return buf;
}

static void test_slots(void)
{
	char b[GAUGE_COLUMNS_MAX + 1];

	is_str("==#+....  ", slots(b, 10, 2, 1, 1, 4), "a letter a slot");
	is_str("          ", slots(b, 10, 0, 0, 0, 0), "no slot");
	is_str("##########", slots(b, 10, 0, 10, 0, 0), "all of a kind");
	is_str("=########+", slots(b, 10, 1, 65534, 1, 0),
		"one among thousands is seen");
	is_str("==###+....", slots(b, 10, 20, 30, 10, 40), "shares");
	is_str("=#+", slots(b, 3, 7, 7, 7, 7), "more kinds than columns");
	is_str("", slots(b, 0, 7, 7, 7, 7), "no column");
	is_str("==##++..",
		slots(b, 8, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX),
		"as many as can be said");
}

/* Of each kind as many columns as there are slots, or at least one. */
static int is_wrong(int columns, const uint32_t *counts)
{
	char buf[GAUGE_COLUMNS_MAX + 1];
	uint32_t seen[GAUGE_KINDS] = {0}, all = 0;
	int wrong = 0;

	gauge_slots(buf, columns, counts);
	for (int i = 0; buf[i]; i++)
		for (int k = 0; k < GAUGE_KINDS; k++)
			seen[k] += buf[i] == GAUGE_LETTERS[k];
	for (int k = 0; k < GAUGE_KINDS; k++)
		all += counts[k];
	for (int k = 0; k < GAUGE_KINDS; k++) {
		if (all <= (uint32_t)columns)
			wrong += seen[k] != counts[k];
		else
			wrong += (seen[k] > 0) != (counts[k] > 0) ||
				 seen[k] > counts[k];
	}
	return wrong + (strlen(buf) != (size_t)columns);
}

static void test_all_slots(void)
{
	int wrong = 0, bars = 0;

	for (int columns = GAUGE_KINDS; columns <= 20; columns += 4)
		for (uint32_t n = 0; n < 15 * 15 * 15 * 15; n++) {
			const uint32_t counts[GAUGE_KINDS] = {
				n % 15, n / 15 % 15, n / 225 % 15, n / 3375};

			wrong += is_wrong(columns, counts);
			bars++;
		}
	is_int(0, wrong, "of %d bars, all are right", bars);
}

static void test_curve(void)
{
	const double values[] = {0, 1, 2, 4, 8};
	char buf[3 * GAUGE_COLUMNS_MAX + 1];
	double many[100];

	gauge_curve(buf, 5, values, 5, false);
	is_str(" ._=#", buf, "in ASCII");
	gauge_curve(buf, 5, values, 5, true);
	is_str(" \u2581\u2582\u2584\u2588", buf, "in Unicode");
	gauge_curve(buf, 8, values, 5, false);
	is_str("    ._=#", buf, "the newest at the right");
	gauge_curve(buf, 2, values, 5, false);
	is_str("=#", buf, "the last of many");
	gauge_curve(buf, 3, values, 1, false);
	is_str("   ", buf, "nothing goes through");
	gauge_curve(buf, 4, values, 0, true);
	is_str("    ", buf, "nothing is known");
	many[0] = 1e300;
	for (size_t i = 1; i < ARRAY_SIZE(many); i++)
		many[i] = 1e-300;
	gauge_curve(buf, 100, many, 100, true);
	is_int(3 * GAUGE_COLUMNS_MAX, (int64_t)strlen(buf),
		"no wider than it may be");
	gauge_curve(buf, 3, many, 3, false);
	is_str("#..", buf, "a little is not nothing");
}

int main(void)
{
	test_slots();
	test_all_slots();
	test_curve();
	return done(17);
}
