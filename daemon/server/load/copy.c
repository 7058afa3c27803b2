/* SPDX-License-Identifier: MIT */
/*
 * Loads that read no file: the bytes of a storage once more, as a replica on
 * another node, or for names that move there.
 *
 * The daemon copies, not its client: what a reader gets under a name is what
 * was published there, no matter which client asked for a replica. The client
 * names a storage that it holds. The storage stays for as long as the load, and
 * its loader writes nothing else.
 */
#include <stdatomic.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server/load/internal.h"

static uint64_t word_of(const struct domain *domain, uint32_t index)
{
	/* Only this thread writes the word. */
	return atomic_load_explicit(
		&domain->table.storages[index].word, memory_order_relaxed);
}

int load_copy_check(struct load *load)
{
	const struct msg_load *head =
		(const struct msg_load *)load->message.body;
	/* load_parse has looked whether it is there. */
	const struct msg_copied *of = (const struct msg_copied *)(head + 1);

	load->copy = (struct load_copy) {
		.is = head->flags & LOAD_COPY,
		.moves = head->flags & LOAD_MOVE,
	};
	if (!load->copy.is)
		return 0;
	load->copy.index = of->index;
	load->copy.generation = of->generation;
	if (load->fresh || load->n_ranges != 1 || load->message.n_fds ||
		load->fds[0] >= 0 || !(load->place & PLACE_TOLD) ||
		load->copy.moves != (load->names.n > 0))
		return tarn_fail(EINVAL,
			"load: a copy is of one range, without a descriptor, "
			"for a node; it has names if they are to move: flags "
			"%#x, %u ranges, %u names",
			head->flags, load->n_ranges, load->names.n);
	load->copy.range = (struct msg_range) {.size = load->size};
	load->ranges = &load->copy.range;
	load->seen = (struct file_version) {0};
	return 0;
}

/* A replica stands for the storage that it is of, but not where names lead to
 * it by themselves. */
static void find_original(struct load *load)
{
	const struct table_storage *e =
		&load->domain->table.storages[load->copy.index];

	if (!(e->flags & STORAGE_REPLICA) || load->copy.moves ||
		!replica_is_of(load->domain, e))
		return;
	load->copy.generation = e->of_generation;
	load->copy.index = e->of;
}

static int check_storage(const struct load *load)
{
	const struct domain *domain = load->domain;
	uint32_t index = load->copy.index;
	const struct table_storage *e = &domain->table.storages[index];

	if (word_of(domain, index) !=
		storage_word(load->copy.generation, STORAGE_LIVE))
		return tarn_fail(ESTALE,
			"copy: no name leads to storage %u of generation %llu "
			"any more",
			index, (unsigned long long)load->copy.generation);
	if (e->flags & STORAGE_MUTABLE)
		return tarn_fail(EINVAL,
			"copy: the tensor is mutable: a replica would not "
			"change with it");
	if (e->flags & STORAGE_DEVICE)
		return tarn_fail(ENOTSUP,
			"copy: the tensor lies in memory of a device, which "
			"the daemon does not read; copy it to the host and "
			"publish that");
	if (e->flags & STORAGE_PATCH)
		return tarn_fail(ENOTSUP,
			"copy: the tensor is a patch over an older version of "
			"it, which the daemon does not put together; publish a "
			"copy of it, or refit the set with whole tensors");
	if (domain->storages.infos[index].in_old_segment)
		return tarn_fail(ENOTSUP,
			"copy: the tensor lies in memory of before the "
			"daemon's upgrade, which is read-only for the new one; "
			"publish or load it once more");
	if (e->size != load->size)
		return tarn_fail(EINVAL,
			"copy: storage %u has %llu bytes, not %llu", index,
			(unsigned long long)e->size,
			(unsigned long long)load->size);
	return 0;
}

int load_copy_begin(struct load *load)
{
	struct domain *domain = load->domain;
	struct load_copy *copy = &load->copy;
	bool held = false;
	int r, fd;

	if (!copy->is)
		return 0;
	if (copy->index < domain->storages.n_infos &&
		copy->index < domain->table.header->n_storages)
		client_find_held(load->client, &copy->index, &copy->generation,
			1, &held);
	if (!held)
		return tarn_fail(ESTALE,
			"copy: storage %u of generation %llu is not one that "
			"this connection holds",
			copy->index, (unsigned long long)copy->generation);
	find_original(load);
	r = check_storage(load);
	if (r < 0)
		return r;
	if (domain->table.storages[copy->index].flags & STORAGE_OWN) {
		fd = own_fd(domain, copy->index, copy->generation);
		load->fds[0] = fd < 0 ? -EBADF : fd_dup(fd);
		if (load->fds[0] < 0)
			return tarn_fail(-load->fds[0],
				"copy: the descriptor of storage %u: %s",
				copy->index, tarn_errno_text(load->fds[0]));
	}
	storage_need(domain, copy->index, load->user->spec.uid);
	copy->held = true;
	return 0;
}

void load_copy_end(struct load *load)
{
	if (!load->copy.held)
		return;
	load->copy.held = false;
	storage_need_end(load->domain, load->copy.index);
}

bool load_copy_find(const struct load *load, uint32_t *ret)
{
	const struct domain *domain = load->domain;
	const struct table_storage *e =
		&domain->table.storages[load->copy.index];

	if (load->copy.moves)
		return false;
	if (!(e->flags & STORAGE_OWN) && domain->pool.lane_size &&
		lane_fits(&domain->pool, load->place, e->alloc_offset)) {
		*ret = load->copy.index;
		return true;
	}
	return replica_find(
		domain, load->copy.index, place_wished(load->place), ret);
}

void load_copy_describe(const struct load *load, struct table_storage *entry)
{
	if (load->copy.moves)
		return;
	entry->flags = STORAGE_REPLICA;
	entry->of = load->copy.index;
	entry->of_generation = load->copy.generation;
	entry->replica_node = (uint32_t)place_wished(load->place);
}

int load_copy_show(struct load *load, uint32_t index)
{
	struct domain *domain = load->domain;
	const struct storage_info *of = storage_info(domain, load->copy.index);
	struct table_storage *entry = &domain->table.storages[index];

	if (load->copy.moves)
		return 0;
	if (!of->names && !of->cached) {
		entry->flags &= ~STORAGE_REPLICA;
		return tarn_fail(ESTALE,
			"copy: the last name of the tensor was removed or "
			"replaced meanwhile");
	}
	/* Another client may have asked for it at the same time. */
	replicas_drop(domain, load->copy.index, (int)entry->replica_node);
	replica_join(domain, index);
	return 0;
}
