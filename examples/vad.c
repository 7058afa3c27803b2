/* SPDX-License-Identifier: MIT */
/*
 * vad WEIGHTS AUDIO: how likely each 32 ms of a recording are speech. WEIGHTS are
 * Silero's of version 5 for 16 kHz, a safetensors file; AUDIO is a .npy file of
 * F32 at 16 kHz. The network is a Fourier transform, written as a convolution
 * with a stride, four convolutions, an LSTM cell that goes from chunk to chunk,
 * and a sigmoid.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/nn.h>
#include <tarn/ops.h>
#include <tarn/tarn.h>

#define CHUNK 512  /* samples */
#define CONTEXT 64 /* of the chunk before, which come first */
#define STATE 128  /* numbers that the cell remembers */
#define CONVOLUTIONS 4

struct vad {
	tarn_module *tree;
	tarn_state *weights;
	tarn_tensor *x;       /* [1, 1, CONTEXT + CHUNK] */
	tarn_tensor *h, *c;   /* [1, STATE] */
	tarn_tensor *gates;   /* [1, 4 STATE] */
	tarn_tensor *gate[4]; /* views of it, [1, STATE]: i, f, g, o */
};

/* The tensor of that path; NULL: there is none. */
static tarn_tensor *weight(
	const struct vad *v, const char *layer, const char *name)
{
	char path[64];
	tarn_parameter *p = NULL;

	snprintf(path, sizeof(path), "%s.%s", layer, name);
	if (tarn_module_find_parameter(v->tree, path, &p) < 0)
		return NULL;
	return tarn_state_tensor(v->weights, p);
}

static int vad_open(struct vad *v, const char *path)
{
	const int64_t x[] = {1, 1, CONTEXT + CHUNK}, state[] = {1, STATE};
	const int64_t gates[] = {1, 4 * STATE};
	tarn_file *file = NULL;
	int r = tarn_file_open(path, &file);

	if (r >= 0)
		r = tarn_module_open_file(file, NULL, &v->tree);
	if (r >= 0)
		v->weights = tarn_module_hold(v->tree);
	if (r >= 0)
		r = tarn_tensor_zeros(TARN_F32, 3, x, &v->x);
	if (r >= 0)
		r = tarn_tensor_zeros(TARN_F32, 2, state, &v->h);
	if (r >= 0)
		r = tarn_tensor_zeros(TARN_F32, 2, state, &v->c);
	if (r >= 0)
		r = tarn_tensor_zeros(TARN_F32, 2, gates, &v->gates);
	for (int i = 0; i < 4 && r >= 0; i++)
		r = tarn_tensor_narrow(
			v->gates, 1, i * STATE, STATE, &v->gate[i]);
	tarn_file_unref(file);
	return r;
}

static void vad_close(struct vad *v)
{
	for (int i = 0; i < 4; i++)
		tarn_tensor_unref(v->gate[i]);
	tarn_tensor_unref(v->gates);
	tarn_tensor_unref(v->c);
	tarn_tensor_unref(v->h);
	tarn_tensor_unref(v->x);
	tarn_state_unref(v->weights);
	tarn_module_unref(v->tree);
}

/* Takes the reference x over, and gives another back in its place. */
static int convolve(const struct vad *v, const char *layer, int stride,
	int padding, tarn_tensor **x)
{
	const struct tarn_conv_options options = {
		.stride = {stride}, .padding = {padding}};
	const tarn_tensor *w = weight(v, layer, "weight");
	tarn_tensor *y = NULL;
	int r = w ? tarn_conv(*x, w, weight(v, layer, "bias"), &options, &y)
		  : -1;

	if (r >= 0) {
		tarn_tensor_unref(*x);
		*x = y;
	}
	return r;
}

/* Real and imaginary parts lie one behind the other: [1, 258, n]; the result is
 * what is between them, [1, 129, n]. */
static int magnitude(tarn_tensor **x)
{
	int64_t half = tarn_tensor_layout(*x)->shape[1] / 2;
	tarn_tensor *real = NULL, *imaginary = NULL, *y = NULL;
	int r = tarn_tensor_narrow(*x, 1, 0, half, &real);

	if (r >= 0)
		r = tarn_tensor_narrow(*x, 1, half, half, &imaginary);
	if (r >= 0)
		r = tarn_mul(real, real, &real);
	if (r >= 0)
		r = tarn_mul(imaginary, imaginary, &imaginary);
	if (r >= 0)
		r = tarn_add(real, imaginary, &y);
	if (r >= 0)
		r = tarn_sqrt(y, &y);
	tarn_tensor_unref(real);
	tarn_tensor_unref(imaginary);
	tarn_tensor_unref(*x);
	*x = y;
	return r;
}

/* The end is mirrored, so that the last window has its size. */
static int spectrum(const struct vad *v, tarn_tensor **ret)
{
	const int64_t pad[1][2] = {{0, CONTEXT}};
	int r = tarn_pad(v->x, 1, pad, TARN_PAD_REFLECT, tarn_int(0), ret);

	if (r >= 0)
		r = convolve(v, "stft_conv", 128, 0, ret);
	return r < 0 ? r : magnitude(ret);
}

static int encode(const struct vad *v, tarn_tensor **x)
{
	static const int strides[CONVOLUTIONS] = {1, 2, 2, 1};
	int r = 0;

	for (int i = 0; i < CONVOLUTIONS && r >= 0; i++) {
		char layer[] = "conv1";

		layer[4] = (char)('1' + i);
		r = convolve(v, layer, strides[i], 1, x);
		if (r >= 0)
			r = tarn_relu(*x, x);
	}
	return r;
}

/* h and c become those of the next moment. */
static int remember(struct vad *v, const tarn_tensor *x)
{
	tarn_tensor *from_h = NULL, *new = NULL;
	tarn_tensor *of_x = weight(v, "lstm_cell", "weight_ih");
	tarn_tensor *of_h = of_x ? weight(v, "lstm_cell", "weight_hh") : NULL;
	int r;

	if (!of_h)
		return -1; /* the sentence is the look-up's */
	r = tarn_linear(x, of_x, weight(v, "lstm_cell", "bias_ih"), &v->gates);
	if (r >= 0)
		r = tarn_linear(
			v->h, of_h, weight(v, "lstm_cell", "bias_hh"), &from_h);
	if (r >= 0)
		r = tarn_add(v->gates, from_h, &v->gates);
	for (int i = 0; i < 4 && r >= 0; i++)
		r = i == 2 ? tarn_tanh(v->gate[i], &v->gate[i])
			   : tarn_sigmoid(v->gate[i], &v->gate[i]);
	if (r >= 0)
		r = tarn_mul(v->gate[0], v->gate[2], &new);
	if (r >= 0)
		r = tarn_mul(v->gate[1], v->c, &v->c);
	if (r >= 0)
		r = tarn_add(v->c, new, &v->c);
	if (r >= 0)
		r = tarn_tanh(v->c, &v->h);
	if (r >= 0)
		r = tarn_mul(v->h, v->gate[3], &v->h);
	tarn_tensor_unref(from_h);
	tarn_tensor_unref(new);
	return r;
}

static int decide(struct vad *v, double *ret)
{
	tarn_tensor *h = NULL;
	int r = tarn_relu(v->h, &h);
	tarn_tensor *x = NULL;

	if (r >= 0)
		r = tarn_tensor_unsqueeze(h, 2, &x);
	if (r >= 0)
		r = convolve(v, "final_conv", 1, 0, &x);
	if (r >= 0)
		r = tarn_sigmoid(x, &x);
	if (r >= 0)
		r = tarn_tensor_get_f64(x, (int64_t[]) {0, 0, 0}, ret);
	tarn_tensor_unref(x);
	tarn_tensor_unref(h);
	return r;
}

/* One chunk of CHUNK samples, of which the last may be missing. */
static int hear(struct vad *v, const float *samples, int64_t n, double *ret)
{
	float *x = tarn_tensor_data(v->x);
	tarn_tensor *y = NULL, *features = NULL;
	int r;

	memmove(x, x + CHUNK, CONTEXT * sizeof(*x));
	memset(x + CONTEXT, 0, CHUNK * sizeof(*x));
	memcpy(x + CONTEXT, samples, (size_t)n * sizeof(*x));
	r = spectrum(v, &y);
	if (r >= 0)
		r = encode(v, &y);
	if (r >= 0)
		r = tarn_tensor_select(y, 2, 0, &features);
	if (r >= 0)
		r = remember(v, features);
	if (r >= 0)
		r = decide(v, ret);
	tarn_tensor_unref(features);
	tarn_tensor_unref(y);
	return r;
}

static int listen_to(struct vad *v, const tarn_tensor *audio)
{
	const struct tarn_layout *l = tarn_tensor_layout(audio);
	const float *samples = tarn_tensor_data(audio);
	double p;
	int r = 0;

	if (l->ndim != 1 || l->dtype != TARN_F32)
		return tarn_error_set(EINVAL, "AUDIO is not one row of F32");
	for (int64_t i = 0; i < l->shape[0] && r >= 0; i += CHUNK) {
		int64_t left = l->shape[0] - i;

		r = hear(v, samples + i, left < CHUNK ? left : CHUNK, &p);
		if (r >= 0)
			printf("%.2f %.7f\n", (double)i / 16000, p);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct vad v = {0};
	tarn_file *file = NULL;
	tarn_tensor *audio = NULL, *samples = NULL;
	int r;

	if (argc != 3 || argv[1][0] == '-') {
		fprintf(stderr, "usage: vad WEIGHTS.safetensors AUDIO.npy\n");
		return 2;
	}
	r = vad_open(&v, argv[1]);
	if (r >= 0)
		r = tarn_file_open(argv[2], &file);
	if (r >= 0)
		r = tarn_file_tensor(file, tarn_file_at(file, 0)->name, &audio);
	if (r >= 0)
		r = tarn_tensor_clone(audio, &samples);
	if (r >= 0)
		r = listen_to(&v, samples);
	if (r < 0)
		fprintf(stderr, "vad: %s\n", tarn_error_message());
	tarn_tensor_unref(samples);
	tarn_tensor_unref(audio);
	tarn_file_unref(file);
	vad_close(&v);
	return r < 0;
}
