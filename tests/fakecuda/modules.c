/* SPDX-License-Identifier: MIT */
/*
 * Modules and kernels. An image is recognised by how it begins; its kernels are
 * looked up by name among those that were compiled for the host. Modules are
 * never freed, so that a function of one that was unloaded is recognised.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tests/fakecuda/kernels.h"
#include "tests/fakecuda/standin.h"

struct function {
	struct module *module;
	struct kernel kernel;
};

struct module {
	struct module *next;
	int device;
	bool alive;
	int n;
	struct function functions[KERNELS_MAX];
};

struct launch {
	struct item item;
	struct function *function;
	struct grid grid;
	_Alignas(16) char params[];
};

static struct module *modules;

/* ---- modules ------------------------------------------------------------- */

static bool is_image(const void *image)
{
	static const unsigned char fat[] = {0x50, 0xed, 0x55, 0xba};
	static const unsigned char elf[] = {0x7f, 'E', 'L', 'F'};

	return !memcmp(image, fat, sizeof(fat)) ||
	       !memcmp(image, elf, sizeof(elf)) || !memcmp(image, "//", 2) ||
	       !memcmp(image, ".version", 8);
}

CUresult cuModuleLoadData(CUmodule *ret, const void *image)
{
	struct kernel kernels[KERNELS_MAX];
	int device = current_device();
	struct module *m;
	CUresult e = begin();

	if (!e)
		e = device < 0 ? CUDA_ERROR_INVALID_CONTEXT
			       : refused("MODULE_LOAD", device);
	if (!e && !is_image(image))
		e = CUDA_ERROR_INVALID_IMAGE;
	if (e)
		return end(e);
	m = calloc(1, sizeof(*m));
	if (!m)
		return end(CUDA_ERROR_OUT_OF_MEMORY);
	m->device = device;
	m->alive = true;
	m->n = kernels_list(kernels);
	for (int i = 0; i < m->n; i++) {
		m->functions[i].module = m;
		m->functions[i].kernel = kernels[i];
	}
	m->next = modules;
	modules = m;
	*ret = (CUmodule)m;
	return end(CUDA_SUCCESS);
}

static CUresult module_find(CUmodule handle, struct module **ret)
{
	struct module *m = (struct module *)handle;

	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!m->alive) {
		account_fault("a module is used after it was unloaded");
		return CUDA_ERROR_INVALID_HANDLE;
	}
	if (m->device != current_device()) {
		account_fault("a module of device %d is used in the context of "
			      "device %d",
			m->device, current_device());
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	*ret = m;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle)
{
	struct module *m;
	CUresult e = begin();

	if (!e)
		e = module_find(handle, &m);
	if (!e)
		e = refused("MODULE_UNLOAD", m->device);
	if (!e)
		m->alive = false;
	return end(e);
}

CUresult cuModuleGetFunction(CUfunction *ret, CUmodule handle, const char *name)
{
	struct module *m;
	CUresult e = begin();

	if (!e)
		e = module_find(handle, &m);
	if (!e)
		e = refused("MODULE_FUNCTION", m->device);
	if (e)
		return end(e);
	for (int i = 0; i < m->n; i++)
		if (!strcmp(m->functions[i].kernel.name, name)) {
			*ret = (CUfunction)&m->functions[i];
			return end(CUDA_SUCCESS);
		}
	return end(CUDA_ERROR_NOT_FOUND);
}

/* ---- launches ------------------------------------------------------------ */

/* Where the host has what the kernel uses, put in place of the device's
 * addresses; false: it may not be used. */
static bool translate(
	const struct kernel *kernel, char *params, int device, uint64_t *ret_at)
{
	struct touch touch[TOUCHES_MAX];
	int n = kernel->touches(params, touch);

	for (int i = 0; i < n; i++) {
		uint64_t first = *touch[i].address + (uint64_t)touch[i].first;
		enum place place;
		char *host;

		if (!touch[i].size)
			continue;
		place = place_of(first, touch[i].size, device, touch[i].writes,
			false, &host);
		if (place != PLACE_DEVICE && place != PLACE_REGISTERED) {
			*ret_at = first;
			return false;
		}
		*touch[i].address = (uintptr_t)host - (uint64_t)touch[i].first;
	}
	return true;
}

static void run(struct item *item)
{
	struct launch *l = (struct launch *)item;
	const struct kernel *kernel = &l->function->kernel;
	uint64_t at;

	if (!l->function->module->alive)
		account_fault(
			"%s runs after its module was unloaded", kernel->name);
	else if (translate(kernel, l->params, item->device, &at))
		kernel->run(l->params, &l->grid);
	else
		account_fault("%s uses memory at %#llx which is not the "
			      "device's, or not any more",
			kernel->name, (unsigned long long)at);
}

static bool is_grid(const struct grid *g)
{
	uint64_t threads = (uint64_t)g->block[0] * g->block[1] * g->block[2];

	return g->grid[0] && g->grid[1] && g->grid[2] && threads &&
	       g->grid[0] <= 0x7fffffff && g->grid[1] <= 65535 &&
	       g->grid[2] <= 65535 && g->block[0] <= 1024 &&
	       g->block[1] <= 1024 && g->block[2] <= 64 && threads <= 1024 &&
	       g->shared <= 48 << 10;
}

static CUresult launch(struct function *f, const struct grid *grid,
	CUstream handle, void **params)
{
	struct stream *stream;
	struct module *module;
	struct launch *l;
	CUresult e = stream_use(handle, &stream);

	if (!e)
		e = module_find((CUmodule)f->module, &module);
	if (!e)
		e = refused("LAUNCH", stream->device);
	if (!e)
		e = refused(f->kernel.name, stream->device);
	if (!e && !is_grid(grid))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e)
		return e;
	l = calloc(1, sizeof(*l) + f->kernel.size);
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->item.run = run;
	l->function = f;
	l->grid = *grid;
	memcpy(l->params, params[0], f->kernel.size);
	stream_queue(stream, &l->item);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
	unsigned shared, CUstream stream, void **params, void **extra)
{
	const struct grid grid = {
		{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
	CUresult e = begin();

	if (!e && (!f || !params || extra))
		e = CUDA_ERROR_INVALID_VALUE;
	return end(e ? e : launch((struct function *)f, &grid, stream, params));
}

/* ---- the account --------------------------------------------------------- */

int count_modules(int device)
{
	int n = 0;

	for (struct module *m = modules; m; m = m->next)
		n += m->device == device && m->alive;
	return n;
}

void judge_modules(void)
{
	for (struct module *m = modules; m; m = m->next)
		if (m->alive)
			account_fault("a module of device %d is not unloaded",
				m->device);
}
