// SPDX-License-Identifier: MIT
/*
 * Conversion that writes past the cache itself. Otherwise a tile is converted
 * and then streamed, and memory is idle during the one, the CPU during the
 * other; where both take about as long (images that become normalised planes)
 * doing both at once saves a quarter of the time.
 */
#include "lib/move/simd.h"
#include "lib/move/tile.h"

bool tile_stream(const struct convert *c, const struct tile_rows *rows)
{
	const struct simd *simd = simd_get();

	if (!simd->stream_u8_f32 || c->src_dtype != TARN_U8 ||
		c->dst_dtype != TARN_F32 ||
		(uintptr_t)rows->dst % sizeof(float))
		return false;
	for (int64_t i = 0; i < rows->rows; i++) {
		int64_t channel = rows->channel0 + i * rows->channel_stride;

		/* As in convert.c: a bias of -0 changes nothing. */
		simd->stream_u8_f32(rows->dst + i * rows->dst_stride,
			(const uint8_t *)rows->src + i * rows->n, rows->n,
			c->scale ? (float)c->scale[channel] : 1.f,
			c->bias ? (float)c->bias[channel] : -0.f,
			rows->ahead + i * rows->n);
	}
	return true;
}
