/* SPDX-License-Identifier: MIT */
/* The NUMA node of a PCI device, on a machine whose files lie below a root. */
#pragma once

/* As tarn_node_of_pci says (tarn/node.h), of that machine; root is "" outside of
 * tests. */
int pci_node(const char *root, const char *address, int *ret_node);
