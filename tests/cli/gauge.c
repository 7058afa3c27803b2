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

	is_str("==#+....  ", slots(b, 10, 2, 1, 1, 4),
		"a bar of ten slots has a character for each slot");
	is_str("          ", slots(b, 10, 0, 0, 0, 0),
		"a bar of no slots is blank");
	is_str("##########", slots(b, 10, 0, 10, 0, 0),
		"a bar of slots in one state has one character");
	is_str("=########+", slots(b, 10, 1, 65534, 1, 0),
		"a bar shows a single slot among thousands");
	is_str("==###+....", slots(b, 10, 20, 30, 10, 40),
		"a bar of many slots shows the shares of the states");
	is_str("=#+", slots(b, 3, 7, 7, 7, 7),
		"a bar with fewer columns than states shows the first ones");
	is_str("", slots(b, 0, 7, 7, 7, 7), "a bar without columns is empty");
	is_str("==##++..",
		slots(b, 8, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX),
		"a bar shows the largest numbers that fit");
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
	is_int(0, wrong, "%d random bars are all right", bars);
}

static void test_curve(void)
{
	const double values[] = {0, 1, 2, 4, 8};
	char buf[3 * GAUGE_COLUMNS_MAX + 1];
	double many[100];

	gauge_curve(buf, 5, values, 5, false);
	is_str(" ._=#", buf, "a curve is drawn in ASCII");
	gauge_curve(buf, 5, values, 5, true);
	is_str(" \u2581\u2582\u2584\u2588", buf, "a curve is drawn in Unicode");
	gauge_curve(buf, 8, values, 5, false);
	is_str("    ._=#", buf, "a curve has its newest value at the right");
	gauge_curve(buf, 2, values, 5, false);
	is_str("=#", buf, "a curve shows the last of many values");
	gauge_curve(buf, 3, values, 1, false);
	is_str("   ", buf, "a curve of zeros is blank");
	gauge_curve(buf, 4, values, 0, true);
	is_str("    ", buf, "a curve without values is blank");
	many[0] = 1e300;
	for (size_t i = 1; i < ARRAY_SIZE(many); i++)
		many[i] = 1e-300;
	gauge_curve(buf, 100, many, 100, true);
	is_int(3 * GAUGE_COLUMNS_MAX, (int64_t)strlen(buf),
		"a curve is no wider than its columns");
	gauge_curve(buf, 3, many, 3, false);
	is_str("#..", buf, "a curve does not round a small value to nothing");
}

int main(void)
{
	test_slots();
	test_all_slots();
	test_curve();
	return done(17);
}
