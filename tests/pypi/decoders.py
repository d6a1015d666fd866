# SPDX-License-Identifier: Apache-2.0
"""decoders.py EIN FOLDER: GPT-2 and a four-layer LLaMA of real proportions, with seeded weights written to FOLDER as
checkpoints, against these evaluations in PyTorch (f64): logits of a prompt, and 32 tokens chosen greedily. The
evaluations keep no cache: each token must be the best after all those before it."""
import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

from oracle import Checks, bf16_bits, bf16_values, ein_run, read_safetensors, tokens_option, write_safetensors

GENERATE = 32


def gpt2_shapes(c):
    h, shapes = c["n_embd"], {}
    shapes["wte.weight"] = (c["vocab_size"], h)
    shapes["wpe.weight"] = (c["n_positions"], h)
    for i in range(c["n_layer"]):
        p = f"h.{i}."
        for name, n in (("ln_1", h), ("ln_2", h)):
            shapes[p + name + ".weight"] = shapes[p + name + ".bias"] = (n,)
        for name, k, n in (("attn.c_attn", h, 3 * h), ("attn.c_proj", h, h), ("mlp.c_fc", h, 4 * h), ("mlp.c_proj", 4 * h, h)):
            shapes[p + name + ".weight"] = (k, n)
            shapes[p + name + ".bias"] = (n,)
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (h,)
    return shapes


def gpt2(c, w, ids):
    h, heads, n = c["n_embd"], c["n_head"], len(ids)

    def norm(x, name):
        return F.layer_norm(x, (h,), w[name + ".weight"], w[name + ".bias"], c["layer_norm_epsilon"])

    def conv(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    hidden = torch.full((n, n), -math.inf, dtype=torch.float64).triu(1)
    x = w["wte.weight"][ids] + w["wpe.weight"][:n]
    for i in range(c["n_layer"]):
        p = f"h.{i}."
        q, k, v = (t.view(n, heads, -1).transpose(0, 1) for t in conv(norm(x, p + "ln_1"), p + "attn.c_attn").split(h, -1))
        s = (q @ k.transpose(1, 2) / math.sqrt(h // heads) + hidden).softmax(-1)
        x = x + conv((s @ v).transpose(0, 1).reshape(n, h), p + "attn.c_proj")
        m = conv(norm(x, p + "ln_2"), p + "mlp.c_fc")
        m = 0.5 * m * (1 + torch.tanh(math.sqrt(2 / math.pi) * (m + 0.044715 * m**3)))
        x = x + conv(m, p + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def llama_shapes(c):
    h, f, shapes = c["hidden_size"], c["intermediate_size"], {}
    kv = h // c["num_attention_heads"] * c["num_key_value_heads"]
    shapes["model.embed_tokens.weight"] = (c["vocab_size"], h)
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        for name, n, k in (("self_attn.q_proj", h, h), ("self_attn.k_proj", kv, h), ("self_attn.v_proj", kv, h),
                           ("self_attn.o_proj", h, h), ("mlp.gate_proj", f, h), ("mlp.up_proj", f, h), ("mlp.down_proj", h, f)):
            shapes[p + name + ".weight"] = (n, k)
        shapes[p + "input_layernorm.weight"] = shapes[p + "post_attention_layernorm.weight"] = (h,)
    shapes["model.norm.weight"] = (h,)
    shapes["lm_head.weight"] = (c["vocab_size"], h)
    return shapes


def llama(c, w, ids):
    h, heads, kv, n = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], len(ids)
    size = h // heads

    def norm(x, name):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + c["rms_norm_eps"]) * w[name + ".weight"]

    def linear(x, name):
        return x @ w[name + ".weight"].T

    angle = torch.arange(n, dtype=torch.float64)[:, None] * c["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    cosine, sine = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def rotate(x):
        half = torch.cat([-x[..., size // 2 :], x[..., : size // 2]], -1)
        return x * cosine + half * sine

    hidden = torch.full((n, n), -math.inf, dtype=torch.float64).triu(1)
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        y = norm(x, p + "input_layernorm")
        q = rotate(linear(y, p + "self_attn.q_proj").view(n, heads, size).transpose(0, 1))
        k = rotate(linear(y, p + "self_attn.k_proj").view(n, kv, size).transpose(0, 1)).repeat_interleave(heads // kv, 0)
        v = linear(y, p + "self_attn.v_proj").view(n, kv, size).transpose(0, 1).repeat_interleave(heads // kv, 0)
        s = (q @ k.transpose(1, 2) / math.sqrt(size) + hidden).softmax(-1)
        x = x + linear((s @ v).transpose(0, 1).reshape(n, h), p + "self_attn.o_proj")
        y = norm(x, p + "post_attention_layernorm")
        x = x + linear(F.silu(linear(y, p + "mlp.gate_proj")) * linear(y, p + "mlp.up_proj"), p + "mlp.down_proj")
    return linear(norm(x, "model.norm"), "lm_head")


MODELS = {
    # The published sizes of gpt2.
    "gpt2": (gpt2_shapes, gpt2, "F32", {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "n_embd": 768,
        "n_head": 12, "n_layer": 12, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True}),
    # The widths of TinyLlama 1.1B, in four layers.
    "llama": (llama_shapes, llama, "BF16", {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 2048,
        "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": 4,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": 32000,
        "tie_word_embeddings": False}),
}


def seeded(shapes, dtype):
    """Normal numbers of deviation 0.02 (norms: 1 + that), rounded as they will be stored."""
    r, tensors = np.random.default_rng(1), {}
    for name, shape in shapes.items():
        x = r.standard_normal(shape, np.float32) * np.float32(0.02)
        x += np.float32(len(shape) == 1 and "bias" not in name)
        tensors[name] = bf16_values(bf16_bits(x)).reshape(shape) if dtype == "BF16" else x
    return tensors


def main():
    ein, root = sys.argv[1:3]
    check = Checks()
    for name, (shapes, model, dtype, config) in MODELS.items():
        folder = os.path.join(root, name)
        os.makedirs(folder, exist_ok=True)
        tensors = seeded(shapes(config), dtype)
        write_safetensors(os.path.join(folder, "model.safetensors"), tensors, dtype)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({**config, "torch_dtype": "float32" if dtype == "F32" else "bfloat16"}, f)
        weights = {k: torch.from_numpy(v).double() for k, v in tensors.items()}
        prompt = [1 + 977 * i % (config["vocab_size"] - 1) for i in range(12)]
        evaluated = {}  # a causal model needs one look at prompt and tokens: token i is right if it is the choice after those before
        for devices in (1, 3, 8):
            out = os.path.join(folder, "out.safetensors")
            row = ein_run(ein, folder, devices, "--dtype", "f32", "--generate", str(GENERATE), "--output", out, *tokens_option(prompt))
            ids = tuple(row["generated"])
            if ids not in evaluated:
                with torch.no_grad():
                    evaluated[ids] = model(config, weights, torch.tensor([*prompt, *ids])).numpy()
            want, n = evaluated[ids], len(prompt)
            got = read_safetensors(out)["logits"].astype(np.float64).reshape(n, -1)
            error = np.linalg.norm(got - want[:n]) / np.linalg.norm(want[:n])
            check(f"{name}, {devices} devices, logits", error < 1e-5, f"error {error:.3g} of the norm")
            right = len(ids) == GENERATE and list(ids) == want[n - 1 : -1].argmax(-1).tolist()
            check(f"{name}, {devices} devices, tokens", right, f"{list(ids[:6])}...")
        os.remove(os.path.join(folder, "model.safetensors"))
    check.end()


main()
