# SPDX-License-Identifier: Apache-2.0
"""What the oracles share: safetensors files, and calls of `ein run`. Standard library and numpy only."""
import json
import struct
import subprocess
import sys

import numpy as np

NUMPY = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32}


def bf16_bits(x):
    """f32 array to the bits of bf16, rounded half to even."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)


def bf16_values(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def read_safetensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        data = f.read()
    tensors = {}
    for name, t in head.items():
        if name == "__metadata__":
            continue
        raw = data[t["data_offsets"][0] : t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            x = bf16_values(np.frombuffer(raw, np.uint16))
        else:
            x = np.frombuffer(raw, NUMPY[t["dtype"]])
        tensors[name] = x.reshape(t["shape"])
    return tensors


def write_safetensors(path, tensors, dtype):
    """dtype: "F32" or "BF16", for all."""
    head, at = {}, 0
    for name, x in tensors.items():
        size = x.size * (2 if dtype == "BF16" else 4)
        head[name] = {"dtype": dtype, "shape": list(x.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for x in tensors.values():
            f.write((bf16_bits(x) if dtype == "BF16" else np.asarray(x, np.float32)).tobytes())


def ein_run(ein, folder, devices, *options):
    """The JSON object that `ein run FOLDER ...` prints."""
    command = [ein, "run", folder, "--devices", str(devices), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def tokens_option(ids):
    return ["--tokens", ",".join(str(i) for i in ids)]


class Checks:
    """Counts, prints and, at the end, decides."""

    def __init__(self):
        self.failed = 0
        self.passed = 0

    def __call__(self, what, ok, detail):
        print(f"{'ok    ' if ok else 'FAILED'} {what}: {detail}", flush=True)
        self.failed += not ok
        self.passed += ok

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)
