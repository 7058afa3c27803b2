#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tensor.device_pointer(), with the stand-in for the driver of CUDA, which this
script runs again to have."""
import os
import sys

from tap import equal, finish, raises, skip_all

STAND_IN = os.environ.get("top_builddir", ".") + "/tests/fakecuda/.libs"
OFFSET = 1 << 44  # FAKECUDA_OFFSET of device 0

if not os.path.exists(STAND_IN + "/libcuda.so.1"):
    skip_all("tarn was built without CUDA")
if "FAKECUDA_DEVICES" not in os.environ:
    path = os.path.realpath(STAND_IN)
    if "LD_LIBRARY_PATH" in os.environ:
        path += ":" + os.environ["LD_LIBRARY_PATH"]
    os.environ.update(LD_LIBRARY_PATH=path, FAKECUDA_DEVICES="2",
                      FAKECUDA_READ_ONLY="1")
    os.execv(sys.executable, [sys.executable, *sys.argv])

import py_kit as kit
import tarn

daemon = kit.start_daemon(os.environ["TMPDIR"] + "/d")
store = tarn.Store()
store.publish({"t": tarn.full([4, 8], 0.5)})
t = store["t"]

first = t.device_pointer()
equal(t.device_pointer(0), first, "the first device is meant")
equal(t[1:].device_pointer() - first, 32, "a view has an address in it")
equal(t.device_pointer(device=1) - first, OFFSET,
      "another device has another address")
equal(t.device_pointer("0000:3b:00.0"), first, "a PCI address is a device")
equal(t.device_pointer("GPU-abababab-abab-abab-abab-ababababab00"), first,
      "a UUID is a device")
raises(OSError, "there are 2", "a device that is not there",
       t.device_pointer, 2)
raises(ValueError, "neither", "a name that is none", t.device_pointer,
       "cuda:0")
raises(ValueError, "neither", "a negative index", t.device_pointer, -1)
raises(TypeError, "", "no device", t.device_pointer, None)
raises(ValueError, "not a store's", "memory of this process",
       tarn.zeros([3]).device_pointer)

del t, store
daemon.terminate()
daemon.wait()
sys.exit(finish())
