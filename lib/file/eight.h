/* SPDX-License-Identifier: MIT */
/*
 * Text looked at eight characters at a time, in one word, without a branch for
 * each: half of what a header of many tensors costs is names and numbers, a
 * dozen instructions a character.
 *
 * The idea: each test leaves bit 7 of a byte set where it holds. Subtracting
 * borrows, and adding carries, into higher bytes, never lower ones: so the
 * lowest byte that is marked is always right, and the first character of a
 * text is the lowest byte (tarn is for little-endian machines).
 *
 * Source: Bit Twiddling Hacks, "Determine if a word has a zero byte".
 */
#pragma once

#include <stdint.h>
#include <string.h>

#define EIGHT(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t eight_at(const char *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

/* How many characters come before the first that is marked. */
static inline unsigned eight_before(uint64_t marks)
{
	return marks ? (unsigned)__builtin_ctzll(marks) / 8 : 8;
}

/* Marks bytes below n, which is at most 128. */
static inline uint64_t eight_below(uint64_t x, unsigned n)
{
	return (x - EIGHT(n)) & ~x & EIGHT(0x80);
}

static inline uint64_t eight_equal(uint64_t x, char c)
{
	return eight_below(x ^ EIGHT((unsigned char)c), 1);
}

/* Marks what does not stand for itself between the quotes of JSON, or is not
 * ASCII; DEL among it. */
static inline uint64_t eight_not_plain(uint64_t x)
{
	return (x & EIGHT(0x80)) | eight_below(x, ' ') | eight_equal(x, 0x7f) |
	       eight_equal(x, '"') | eight_equal(x, '\\');
}

/* Marks what is no digit. */
static inline uint64_t eight_not_digit(uint64_t x)
{
	uint64_t d = x ^ EIGHT('0');

	return (d | (d + EIGHT(0x80 - 10))) & EIGHT(0x80);
}

/* The number that its first n characters, 1 to 8 digits, are. */
static inline uint64_t eight_number(uint64_t x, unsigned n)
{
	const uint64_t pairs = UINT64_C(0x000000ff000000ff);

	/* Zeros in front: the first digit is the lowest byte. */
	x = (x ^ EIGHT('0')) << (64 - 8 * n);
	/* Neighbours become one number each: bytes, words, halves. */
	x = x * 10 + (x >> 8);
	return ((x & pairs) * (100 + (UINT64_C(1000000) << 32)) +
		       (x >> 16 & pairs) * (1 + (UINT64_C(10000) << 32))) >>
	       32;
}
