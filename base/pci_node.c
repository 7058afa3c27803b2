/* SPDX-License-Identifier: MIT */
/*
 * The NUMA node of a PCI device, as sysfs has it. Programs write the address of
 * a device in several ways, with a domain of eight digits or without one; there
 * it has one.
 */
#include "base/pci_node.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"

#define DEVICES "/sys/bus/pci/devices"

struct pci_address {
	unsigned domain, bus, device, function;
};

/* Up to so many hexadecimal digits, and the character behind them. */
static bool number(const char **at, size_t most, char end, unsigned *ret)
{
	size_t n = strspn(*at, "0123456789abcdefABCDEF");

	if (!n || n > most || (*at)[n] != end)
		return false;
	*ret = (unsigned)strtoul(*at, NULL, 16);
	*at += n + (end ? 1 : 0);
	return true;
}

static bool parse(const char *at, struct pci_address *ret)
{
	*ret = (struct pci_address) {0};
	if (strchr(at, ':') != strrchr(at, ':') &&
		!number(&at, 8, ':', &ret->domain))
		return false;
	return number(&at, 2, ':', &ret->bus) &&
	       number(&at, 2, '.', &ret->device) && ret->device < 32 &&
	       number(&at, 1, '\0', &ret->function) && ret->function < 8;
}

int pci_node(const char *root, const char *address, int *ret_node)
{
	char path[PATH_MAX], text[32], *end;
	struct pci_address pci;
	long node;
	int n;

	if (!parse(address, &pci))
		return tarn_fail(EINVAL,
			"'%.100s' is no address of a PCI device; one is like "
			"0000:65:00.0",
			address);
	n = snprintf(path, sizeof(path),
		"%s" DEVICES "/%04x:%02x:%02x.%u/numa_node", root, pci.domain,
		pci.bus, pci.device, pci.function);
	if (n < 0 || (size_t)n >= sizeof(path))
		return tarn_fail(ENAMETOOLONG, "the path of %.100s is too long",
			address);
	if (fd_read_text(path, text, sizeof(text)) < 0) {
		*strrchr(path, '/') = '\0';
		if (access(path, F_OK) < 0)
			return tarn_fail(ENOENT,
				"there is no PCI device %.100s: %.200s is not "
				"there",
				address, path);
		return tarn_fail(ENODATA,
			"the kernel does not say on which NUMA node %.100s is",
			address);
	}
	node = strtol(text, &end, 10);
	if (end == text || (*end && *end != '\n') || node < 0 || node > INT_MAX)
		return tarn_fail(ENODATA,
			"the kernel does not know on which NUMA node %.100s is",
			address);
	*ret_node = (int)node;
	return 0;
}
