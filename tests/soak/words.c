/* SPDX-License-Identifier: MIT */
/* The soak's tensors: each says which it is, and can be checked whole. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/soak/soak.h"

uint64_t soak_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* splitmix64 (Steele, Lea, Flood 2014): any state will do. */
uint64_t soak_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

void soak_fault(struct soak_board *board, const char *format, ...)
{
	va_list args;

	if (atomic_fetch_add(&board->faults, 1))
		return;
	va_start(args, format);
	vsnprintf(board->fault, sizeof(board->fault), format, args);
	va_end(args);
}

void soak_name(unsigned row, char name[32])
{
	snprintf(name, 32, "soak/%02u/%u", row / SOAK_SET, row % SOAK_SET);
}

uint64_t soak_size(unsigned row, uint64_t number)
{
	uint64_t state = row * 0x10001ull + number, r = soak_random(&state);

	switch (r % 64) {
	case 0:
		return (3u << 20) / 8; /* a memfd of its own */
	case 1:
	case 2:
		return (256u << 10) / 8; /* copied from a memfd */
	default:
		return 8 + (r >> 8) % 500; /* within a message */
	}
}

void soak_fill(uint64_t *words, uint64_t n, unsigned row, uint64_t number)
{
	uint64_t state = row ^ number << 20;

	words[0] = row;
	words[1] = number;
	for (uint64_t i = 2; i < n; i++)
		words[i] = soak_random(&state);
}

int soak_verify(const tarn_tensor *tensor, unsigned row, uint64_t *ret_number)
{
	const uint64_t *words = tarn_tensor_data(tensor);
	const struct tarn_layout *layout = tarn_tensor_layout(tensor);
	uint64_t n = (uint64_t)layout->shape[0], state;

	if (layout->ndim != 1 || n < 2 || words[0] != row ||
		n != soak_size(row, words[1]))
		return EBADMSG;
	state = row ^ words[1] << 20;
	for (uint64_t i = 2; i < n; i++)
		if (words[i] != soak_random(&state))
			return EILSEQ;
	*ret_number = words[1];
	return 0;
}

static bool removal_between(uint64_t first, uint64_t last)
{
	for (; first <= last; first++)
		if (!first || soak_is_removal(first))
			return true;
	return false;
}

int soak_look(struct soak_board *board, tarn_store *store, unsigned row,
	tarn_tensor **ret)
{
	uint64_t first = atomic_load(&board->rows[row].done), last, number;
	tarn_tensor *tensor = NULL;
	char name[32];
	int r;

	soak_name(row, name);
	r = tarn_store_lookup(store, name, &tensor);
	last = atomic_load(&board->rows[row].begun);
	if (r == -ENOENT) {
		if (!removal_between(first, last))
			soak_fault(board,
				"%s is lost: it was published as "
				"number %llu",
				name, (unsigned long long)first);
		return 1;
	}
	if (r < 0)
		return 0;
	r = soak_verify(tensor, row, &number);
	if (r)
		soak_fault(board,
			"%s: its bytes are not what was published "
			"(%s)",
			name, strerror(r));
	else if (number < first || number > last)
		soak_fault(board, "%s is number %llu, not %llu to %llu", name,
			(unsigned long long)number, (unsigned long long)first,
			(unsigned long long)last);
	if (ret && !r)
		*ret = tensor;
	else
		tarn_tensor_unref(tensor);
	return 1;
}
