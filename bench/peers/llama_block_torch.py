#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A block of LLaMA-7B by PyTorch, eager and compiled, and by libein, in turn in one process on one GPU.

Usage: llama_block_torch.py [--quick] [--cpu] [--ein build/ein] [--library build/libein.so]
--quick: small sizes; --cpu: the same on the CPU and host:1, a check of this script. Exit codes: 0, 1 a result is wrong,
3 there is no PyTorch with CUDA."""
import argparse
import ctypes as C
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print('PyTorch is absent: python3 has no torch')
    sys.exit(3)

EPS, THETA, HEADS = 1e-6, 10000.0, 32
DTYPES = {torch.float32: 1, torch.bfloat16: 5}


# ---- PyTorch ----------------------------------------------------------------------------------------------------------

def norm(x, weight):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype) * weight


def attend(q, k, v, causal):
    if hasattr(F, 'scaled_dot_product_attention'):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores + torch.full(scores.shape[-2:], float('-inf'), device=q.device).triu(1)
    return torch.softmax(scores.float(), -1).to(q.dtype) @ v


class Block(torch.nn.Module):
    """Keys and values of `cached` positions are in buffers, as in the library's states; a step writes behind them."""

    def __init__(self, weights, seq, cached):
        super().__init__()
        self.cached = cached
        for name, w in weights.items():
            self.register_buffer(name, w)
        x = next(iter(weights.values()))
        size = weights['q_proj'].shape[0] // HEADS
        rate = THETA ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angles = torch.outer(torch.arange(cached, cached + seq, dtype=torch.float64), rate).repeat(1, 2)
        self.register_buffer('cosine', angles.cos().float().to(x.device))
        self.register_buffer('sine', angles.sin().float().to(x.device))
        if cached:
            for name in 'keys', 'values':
                self.register_buffer(name, torch.zeros(1, HEADS, cached + seq, size, dtype=x.dtype, device=x.device))

    def turn(self, x):
        a, b = x.float().chunk(2, -1)
        return (x.float() * self.cosine + torch.cat((-b, a), -1) * self.sine).to(x.dtype)

    def forward(self, x):
        y = norm(x, self.input_layernorm)
        q, k, v = (F.linear(y, w).view(1, x.shape[1], HEADS, -1).transpose(1, 2)
                   for w in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.turn(q), self.turn(k)
        if self.cached:
            self.keys[:, :, self.cached:] = k
            self.values[:, :, self.cached:] = v
            k, v = self.keys, self.values
        y = attend(q, k, v, not self.cached).transpose(1, 2).reshape(x.shape)
        x = x + F.linear(y, self.o_proj)
        y = norm(x, self.post_attention_layernorm)
        return x + F.linear(F.silu(F.linear(y, self.gate_proj)) * F.linear(y, self.up_proj), self.down_proj)


def torch_run(call, x, y):
    """From the process's memory to the process's memory (pinned, which is quicker than what libein is given)."""
    def run():
        y.copy_(call(x.to(DEVICE, non_blocking=True)))
        return y
    return run


# ---- libein -----------------------------------------------------------------------------------------------------------

class ContextOptions(C.Structure):
    _fields_ = [('size', C.c_size_t), ('machine', C.c_char_p), ('cache_dir', C.c_char_p), ('no_cache', C.c_int),
                ('progress', C.c_void_p), ('progress_user', C.c_void_p), ('message', C.c_char_p), ('message_bytes', C.c_size_t)]


class CompileOptions(C.Structure):
    _fields_ = [('size', C.c_size_t), ('weights', C.c_void_p), ('state', C.c_void_p), ('plan', C.c_char_p),
                ('wire', C.c_int), ('counting', C.c_int)]


class Ein:
    """The graph of a MODEL, from a graph file of `ein explain --graph`, on a machine; lives as long as the process."""

    def __init__(self, l, graph_file, machine, weights, x, y, scalars, graphs):
        os.environ['EIN_GRAPHS'] = '1' if graphs else '0'  # read when the context is made
        self.l = l
        context, store, graph, program, run, state = (C.c_void_p() for _ in range(6))
        message = C.create_string_buffer(256)
        o = ContextOptions(size=C.sizeof(ContextOptions), machine=machine.encode(), no_cache=1,
                           message=C.cast(message, C.c_char_p), message_bytes=256)
        if l.ein_context_create(C.byref(context), C.byref(o)) != 0:
            raise RuntimeError(message.value.decode())
        self.context = context
        self.good(l.ein_weights_create(C.byref(store), context))
        for name, w in weights.items():
            kind = name if 'layernorm' in name else ('mlp.' if name in ('gate_proj', 'up_proj', 'down_proj') else 'self_attn.') + name
            shape = (C.c_int64 * w.dim())(*w.shape)
            self.good(l.ein_weights_add(store, f'model.layers.0.{kind}.weight'.encode(), DTYPES[w.dtype], w.dim(), shape,
                                        C.c_void_p(w.data_ptr()), 0))
        self.good(l.ein_graph_create(C.byref(graph)))
        self.good(l.ein_graph_load(graph, graph_file.encode()))
        self.good(l.ein_compile(C.byref(program), context, graph, C.byref(CompileOptions(size=C.sizeof(CompileOptions), weights=store))))
        self.good(l.ein_run_create(C.byref(run), program))
        self.run_pointer, self.y = run, y
        self.good(l.ein_run_input(run, b'x', C.c_void_p(x.data_ptr()), C.c_size_t(x.numel() * x.element_size())))
        self.good(l.ein_run_output(run, b'y', C.c_void_p(y.data_ptr()), C.c_size_t(y.numel() * y.element_size())))
        for name, value in scalars.items():
            self.good(l.ein_run_scalar(run, name.encode(), C.c_int64(value)))
        if scalars:
            self.good(l.ein_state_create(C.byref(state), program))
            self.good(l.ein_run_state(run, state))

    def good(self, status):
        if status != 0:
            said = [self.l.ein_context_error(self.context)]
            if hasattr(self, 'run_pointer'):
                said.append(self.l.ein_run_error(self.run_pointer))
            raise RuntimeError(f'libein: status {status}: ' + b' '.join(said).decode())

    def __call__(self):
        self.good(self.l.ein_run_once(self.run_pointer))
        return self.y


# ---- in turn ----------------------------------------------------------------------------------------------------------

def weights_of(hidden, ffn, dtype):
    shapes = {n: (hidden, hidden) for n in ('q_proj', 'k_proj', 'v_proj', 'o_proj')}
    shapes.update(gate_proj=(ffn, hidden), up_proj=(ffn, hidden), down_proj=(hidden, ffn))
    weights = {n: (torch.randn(s) * 0.02).to(dtype) for n, s in shapes.items()}
    weights.update({n: (1 + 0.02 * torch.randn(hidden)).to(dtype) for n in ('input_layernorm', 'post_attention_layernorm')})
    return weights


def compare(what, model, seq, cached, hidden, ffn, options):
    weights = weights_of(hidden, ffn, torch.bfloat16)
    x = torch.randn(1, seq, hidden).to(torch.bfloat16)
    there = {n: w.to(DEVICE) for n, w in weights.items()}
    exact = Block({n: w.float() for n, w in there.items()}, seq, cached)
    with torch.no_grad():
        wanted = exact(x.float().to(DEVICE)).cpu()
    pinned = x if options.cpu else x.pin_memory()
    new = (lambda: torch.empty_like(x)) if options.cpu else (lambda: torch.empty_like(x).pin_memory())
    calls = {'eager': torch_run(Block(there, seq, cached), pinned, new())}
    if not options.cpu:
        calls['compiled'] = torch_run(torch.compile(Block(there, seq, cached), dynamic=False), pinned, new())
        calls['compiled, CUDA graph'] = torch_run(torch.compile(Block(there, seq, cached), dynamic=False, mode='reduce-overhead'),
                                                  pinned, new())
    scalars = dict(position=cached, length=cached + seq) if cached else {}
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, 'graph.json')
        machine = 'host:1' if options.cpu else 'cuda:1'
        subprocess.run([options.ein, 'explain', model, '--devices', '1', '--graph', file], check=True, stdout=subprocess.DEVNULL)
        for name, graphs in ('ein', False), ('ein, CUDA graph', True):
            if not (graphs and options.cpu):
                calls[name] = Ein(options.lib, file, machine, weights, x, torch.empty_like(x), scalars, graphs)
    right = True
    for name, call in calls.items():
        for _ in range(5):  # compiled, captured, warm
            y = call()
        error = ((y.float() - wanted).norm() / wanted.norm()).item()
        if not error <= 1e-2:
            print(f'{what}: {name} is wrong: {error:.3g} of the norm')
            right = False
    if not right:
        return False
    names, seconds = list(calls), {n: [] for n in calls}
    for i in range(5 if options.quick else 60):
        for name in names[i % len(names):] + names[:i % len(names)]:
            began = time.perf_counter()
            calls[name]()
            seconds[name].append(time.perf_counter() - began)
    for name in names:
        ratio = statistics.median(a / b for a, b in zip(seconds[name], seconds['ein']))
        print(f'{what:15} {name:21} {statistics.median(seconds[name]) * 1e6:10.1f} {ratio:12.2f}')
    return True


def load(path):
    l = C.CDLL(os.path.abspath(path))
    for name in 'ein_context_error', 'ein_run_error':
        getattr(l, name).restype = C.c_char_p
    return l


def main():
    global DEVICE
    p = argparse.ArgumentParser()
    p.add_argument('--quick', action='store_true')
    p.add_argument('--cpu', action='store_true')
    p.add_argument('--ein', default='build/ein')
    p.add_argument('--library', default='build/libein.so')
    options = p.parse_args()
    options.quick = options.quick or options.cpu
    if not options.cpu and not (torch.cuda.is_available() and hasattr(torch, 'compile')):
        print(f'PyTorch is absent: torch {torch.__version__} has no CUDA device, or no torch.compile')
        return 3
    DEVICE = torch.device('cpu' if options.cpu else 'cuda:0')
    options.lib = load(options.library)
    torch.manual_seed(1)
    hidden, ffn, seq = (256, 688, 32) if options.quick else (4096, 11008, 1024)
    size = f'layers=1,dtype=bf16' + (f',hidden={hidden}' if options.quick else '')
    print(f'torch {torch.__version__}, {"CPU" if options.cpu else torch.cuda.get_device_name(0)}')
    print(f'{"what":15} {"who":21} {"median_us":>10} {"ratio_to_ein":>12}')
    with torch.no_grad():
        right = compare(f'prefill {seq}', f'llama-7b:{size},seq={seq}', seq, 0, hidden, ffn, options)
        right = compare(f'decode at {seq}', f'llama-7b:{size},seq=1,cached={seq}', 1, seq, hidden, ffn, options) and right
    return 0 if right else 1


if __name__ == '__main__':
    sys.exit(main())
