# SPDX-License-Identifier: Apache-2.0
"""minilm.py EIN MODEL_FOLDER: embeddings of the real all-MiniLM-L6-v2 checkpoint, on many device counts and in f32
and bf16, against this evaluation of BERT in numpy and f64 (Devlin et al. 2019), mean pooled and normalized."""
import json
import math
import os
import sys

import numpy as np

from oracle import Checks, ein_run, read_safetensors, tokens_option

# Word pieces of: "hello world", "the quick brown fox jumps over the lazy dog.", and 48 arbitrary ones.
SENTENCES = [
    [101, 7592, 2088, 102],
    [101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, 102],
    [101, *[1000 + 563 * i % 28000 for i in range(48)], 102],
]
DEVICES = [1, 2, 3, 4, 7, 8]
LEAST = {"f32": 0.99999, "bf16": 0.999}

erf = np.vectorize(math.erf, otypes=[np.float64])


def layer_norm(x, w, b, eps):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + eps) * w + b


def bert(config, weights, ids):
    w = {k: v.astype(np.float64) for k, v in weights.items() if v.dtype != np.int64}
    heads, hidden, eps = config["num_attention_heads"], config["hidden_size"], config["layer_norm_eps"]
    size, n = hidden // heads, len(ids)

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        return layer_norm(x, w[name + ".weight"], w[name + ".bias"], eps)

    e = "embeddings."
    x = w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][:n]
    x = norm(x + w[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
    for i in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        q, k, v = (
            linear(x, p + "attention.self." + name).reshape(n, heads, size).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        s = q @ k.transpose(0, 2, 1) / math.sqrt(size)
        s = np.exp(s - s.max(-1, keepdims=True))
        a = (s / s.sum(-1, keepdims=True)) @ v
        a = linear(a.transpose(1, 0, 2).reshape(n, hidden), p + "attention.output.dense")
        x = norm(x + a, p + "attention.output.LayerNorm")
        h = linear(x, p + "intermediate.dense")
        h = 0.5 * h * (1 + erf(h / math.sqrt(2)))
        x = norm(x + linear(h, p + "output.dense"), p + "output.LayerNorm")
    pooled = x.mean(0)
    return pooled / np.linalg.norm(pooled)


def main():
    ein, folder = sys.argv[1:3]
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    weights = read_safetensors(os.path.join(folder, "model.safetensors"))
    check = Checks()
    for ids in SENTENCES:
        want = bert(config, weights, ids)
        for dtype in LEAST:
            for devices in DEVICES:
                row = ein_run(ein, folder, devices, "--dtype", dtype, *tokens_option(ids))
                got = np.array(row["embedding"], np.float64)
                cosine = got @ want / (np.linalg.norm(got) * np.linalg.norm(want))
                ok = cosine > LEAST[dtype] and abs(np.linalg.norm(got) - 1) < 1e-2
                check(f"{len(ids)} tokens, {dtype}, {devices} devices", ok, f"cosine {cosine:.9f}")
    check.end()


main()
