// SPDX-License-Identifier: MIT
/*
 * Eight characters looked at together are what they are one by one: up to the
 * first that matters, which is all that is asked, whatever stands behind it.
 */
#include "lib/file/swar.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/kit/tap.h"

#define ROUNDS 300000

static uint64_t state = 1;

/* xorshift64*: seeded, the same everywhere. */
static uint64_t next_random(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1d;
}

static bool is_plain(unsigned char c)
{
	return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static unsigned count(const char *text, bool (*is)(unsigned char c))
{
	unsigned n = 0;

	while (n < 8 && is((unsigned char)text[n]))
		n++;
	return n;
}

/* All like others of text, but some that may be any. */
static void make(char text[8], const char *others, size_t n)
{
	uint64_t which = next_random() & next_random() & next_random();

	for (int i = 0; i < 8; i++)
		text[i] = which >> i & 1 ? (char)(next_random() & 0xff)
					 : others[next_random() % n];
}

static void test_plain(void)
{
	static const char others[] = "layer.0~ !\"#[\\]\x1f\x7f\x80";
	int wrong = 0, seen[9] = {0};

	for (int i = 0; i < ROUNDS; i++) {
		char text[8];
		unsigned n;

		make(text, others, next_random() % 2 ? 10 : sizeof(others));
		n = swar_before(swar_not_plain(swar_at(text)));
		seen[n]++;
		wrong += n != count(text, is_plain);
	}
	is_int(0, wrong,
		"a run of plain characters of JSON ends at the right byte");
	ok(seen[0] && seen[7] && seen[8],
		"runs of 0, 7 and 8 plain characters were met");
}

static void test_digits(void)
{
	static const char others[] = "0123456789/:,]";
	int wrong = 0, seen[9] = {0};

	for (int i = 0; i < ROUNDS; i++) {
		char text[9] = "";
		unsigned n;

		make(text, others, next_random() % 2 ? 10 : sizeof(others));
		n = swar_before(swar_not_digit(swar_at(text)));
		seen[n]++;
		wrong += n != count(text, is_digit);
		if (n) {
			uint64_t number = swar_number(swar_at(text), n);

			text[n] = '\0';
			wrong += number != strtoull(text, NULL, 10);
		}
	}
	is_int(0, wrong, "numbers end at the right byte and have their value");
	ok(seen[0] && seen[7] && seen[8],
		"numbers of 0, 7 and 8 digits were met");
}

/* Each byte at each place, in the company of all kinds. */
static void test_every_byte(void)
{
	int wrong = 0;

	for (int i = 0; i < 256 * 8 * 64; i++) {
		char text[8];
		uint64_t x;

		make(text, "0123456789", 10);
		text[i % 8] = (char)(i / 8 % 256);
		x = swar_at(text);
		wrong +=
			swar_before(swar_not_plain(x)) != count(text, is_plain);
		wrong +=
			swar_before(swar_not_digit(x)) != count(text, is_digit);
	}
	is_int(0, wrong, "every byte is classified right at every place");
}

int main(void)
{
	test_plain();
	test_digits();
	test_every_byte();
	return done(5);
}
