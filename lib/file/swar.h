/* SPDX-License-Identifier: MIT */
/*
 * Processes text eight characters at a time, in one word, without a branch for
 * each: half of the cost of a header of many tensors is names and numbers, a
 * dozen instructions a character.
 *
 * Each test leaves bit 7 of a byte set where it holds. Subtracting borrows, and
 * adding carries, into higher bytes, never lower ones: so the lowest byte that
 * is marked is always right, and the first character of a text is the lowest
 * byte (tarn is for little-endian machines).
 *
 * Source: Bit Twiddling Hacks, "Determine if a word has a zero byte".
 */
#pragma once

#include <stdint.h>
#include <string.h>

#define SWAR(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t swar_at(const char *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

/* How many characters come before the first marked one. */
static inline unsigned swar_before(uint64_t marks)
{
	return marks ? (unsigned)__builtin_ctzll(marks) / 8 : 8;
}

/* Marks bytes below n, which is at most 128. */
static inline uint64_t swar_below(uint64_t x, unsigned n)
{
	return (x - SWAR(n)) & ~x & SWAR(0x80);
}

static inline uint64_t swar_equal(uint64_t x, char c)
{
	return swar_below(x ^ SWAR((unsigned char)c), 1);
}

/* Marks bytes that do not stand for themselves in a JSON string, or are not
 * ASCII; DEL among them. */
static inline uint64_t swar_not_plain(uint64_t x)
{
	return (x & SWAR(0x80)) | swar_below(x, ' ') | swar_equal(x, 0x7f) |
	       swar_equal(x, '"') | swar_equal(x, '\\');
}

/* Marks bytes that are not digits. */
static inline uint64_t swar_not_digit(uint64_t x)
{
	uint64_t d = x ^ SWAR('0');

	return (d | (d + SWAR(0x80 - 10))) & SWAR(0x80);
}

/* The value of its first n characters, 1 to 8 digits. */
static inline uint64_t swar_number(uint64_t x, unsigned n)
{
	const uint64_t pairs = UINT64_C(0x000000ff000000ff);

	/* Puts zeros in front: the first digit is the lowest byte. */
	x = (x ^ SWAR('0')) << (64 - 8 * n);
	/* Combines neighbours: bytes, words, halves. */
	x = x * 10 + (x >> 8);
	return ((x & pairs) * (100 + (UINT64_C(1000000) << 32)) +
		       (x >> 16 & pairs) * (1 + (UINT64_C(10000) << 32))) >>
	       32;
}
