/* SPDX-License-Identifier: MIT */
/*
 * The NUMA node of a PCI device, on machines that are made of files: addresses
 * as programs write them, as nobody does, and what a kernel may say.
 */
#include "base/pci_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/error.h>
#include <tarn/node.h>

#include "tests/kit/put_file.h"
#include "tests/kit/tap.h"

#define DEVICES "/sys/bus/pci/devices/"
#define UNSET (-9)

static void addresses(void)
{
	static const struct {
		const char *address;
		int r, node;
	} rows[] = {
		{"0000:65:00.0", 0, 1},
		{"65:00.0", 0, 1},
		{"00000000:65:00.0", 0, 1}, /* nvidia-smi's */
		{"0:65:0.0", 0, 1},
		{"0000:af:1f.7", 0, 3},
		{"0000:AF:1F.7", 0, 3},
		{"AF:1f.7", 0, 3},
		{"10000:e0:06.0", 0, 0}, /* behind a VMD */
		{"0001:65:00.0", -ENOENT, UNSET},
		{"66:00.0", -ENOENT, UNSET},
		{"", -EINVAL, UNSET},
		{"65", -EINVAL, UNSET},
		{"65:00", -EINVAL, UNSET},
		{"65:00.", -EINVAL, UNSET},
		{"65:00.8", -EINVAL, UNSET},
		{"65:00.00", -EINVAL, UNSET},
		{"65:20.0", -EINVAL, UNSET},
		{"165:00.0", -EINVAL, UNSET},
		{":65:00.0", -EINVAL, UNSET},
		{"0000:65:00.0 ", -EINVAL, UNSET},
		{" 65:00.0", -EINVAL, UNSET},
		{"0x0:65:00.0", -EINVAL, UNSET},
		{"+1:00.0", -EINVAL, UNSET},
		{"000000000:65:00.0", -EINVAL, UNSET},
		{"0000:00:65:00.0", -EINVAL, UNSET},
		{"../../:65:00.0", -EINVAL, UNSET},
		{"cuda:0", -EINVAL, UNSET},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int node = UNSET;

		is_int(rows[i].r,
			pci_node(test_tmpdir(), rows[i].address, &node),
			"'%s' is taken, or refused", rows[i].address);
		is_int(rows[i].node, node, "the node of '%s'", rows[i].address);
	}
}

static void answers(void)
{
	static const struct {
		const char *text;
		int r;
	} rows[] = {{"0\n", 0}, {"63", 0}, {"-1\n", -ENODATA}, {"", -ENODATA},
		{"x\n", -ENODATA}, {"1x\n", -ENODATA},
		{"99999999999999999999\n", -ENODATA}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int node;

		put_file(test_tmpdir(), DEVICES "0000:01:00.0/numa_node", "%s",
			rows[i].text);
		is_int(rows[i].r, pci_node(test_tmpdir(), "01:00.0", &node),
			"the answer '%.*s'", (int)strcspn(rows[i].text, "\n"),
			rows[i].text);
	}
}

int main(void)
{
	char command[4200];
	int node = UNSET;

	put_file(test_tmpdir(), DEVICES "0000:65:00.0/numa_node", "1\n");
	put_file(test_tmpdir(), DEVICES "0000:af:1f.7/numa_node", "3\n");
	put_file(test_tmpdir(), DEVICES "10000:e0:06.0/numa_node", "0\n");
	put_file(test_tmpdir(), DEVICES "0000:02:00.0/vendor", "0x10de\n");
	addresses();
	is_int(-EINVAL, pci_node(test_tmpdir(), "gpu", &node), "no address");
	ok(strstr(tarn_error_message(), "'gpu' is no address") &&
			strstr(tarn_error_message(), "like 0000:65:00.0"),
		"the sentence shows one");
	is_int(-ENOENT, pci_node(test_tmpdir(), "66:00.0", &node), "no device");
	ok(strstr(tarn_error_message(), "no PCI device 66:00.0"),
		"the sentence names the device");
	is_int(-ENODATA, pci_node(test_tmpdir(), "02:00.0", &node),
		"a kernel that has no nodes");
	answers();
	is_int(-ENOENT, tarn_node_of_pci("ffffffff:ff:1f.7", &node),
		"a device that no machine has");
	is_int(UNSET, node, "no failure writes a node");
	snprintf(command, sizeof(command), "rm -rf '%s'/*", test_tmpdir());
	if (system(command))
		diag("%s is left behind", test_tmpdir());
	return done(68);
}
