/* SPDX-License-Identifier: MIT */
/*
 * What the command shows of tensors in memory of a device, which it does not
 * have: it lists them with their device, counts them apart from memory of the
 * host, checks them, removes them, and says why it cannot print them.
 */
#include <stdio.h>

#include "tests/kit/cli_channel.h"
#include "tests/kit/device.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define UUID "GPU-face0ff0-0102-0304-0506-0708090a0b0c"

/* The command and a part of what it writes. */
static void shows(int status, const char *command, const char *part)
{
	is_int(status, kit_cli_run("%s", command), "tarn %s", command);
	has_str(part, kit_cli_out, "tarn %s shows: %s", command, part);
}

int main(void)
{
	tarn_store *store = kit_cli_begin();
	tarn_tensor *whole, *half;

	kit_device_begin();
	whole = kit_device_empty(1 << 20);
	must(tarn_tensor_slice(whole, 0, 0, 1 << 19, 1, &half));
	must(tarn_store_publish_one(store, "gpu/whole", whole, NULL, NULL));
	must(tarn_store_publish_one(store, "gpu/half", half, NULL, NULL));
	tarn_tensor_unref(half);
	tarn_tensor_unref(whole);
	shows(0, "ls gpu/", "gpu/half");
	shows(0, "ls -l gpu/", "512.00 KiB  GPU-face0ff0..., 1.00 MiB\n");
	shows(0, "ls -l --json gpu/", "\"device\":\"" UUID "\"");
	shows(0, "ls -l --json gpu/", "\"device_bytes\":1048576");
	shows(0, "status",
		"  devices   1.00 MiB of their memory, in 1 storages\n");
	shows(0, "status", "devices: 1.00 MiB of their memory\n");
	shows(0, "status --json", "\"device_memory\":1048576");
	shows(0, "metrics", "tarn_device_bytes 1048576\n");
	shows(0, "metrics", "tarn_device_storages 1\n");
	shows(0, "metrics", "tarn_pool_device_bytes{");
	shows(0, "metrics", "tarn_used_bytes 0\n");
	shows(0, "check", "2 names");
	shows(1, "print gpu/half", "memory of " UUID);
	shows(1, "replicate gpu/half --node 0", "copy it to the host");
	shows(0, "rm gpu/", "");
	shows(0, "metrics", "tarn_device_bytes 0\n");
	tarn_store_unref(store);
	is_int(0, kit_cli_end_daemon(), "the daemon ends without an error");
	return done(33);
}
