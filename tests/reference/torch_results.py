#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch gives for random inputs, for the tests in this folder: torch_results.py FILE.safetensors [--device cuda]

Each case is a few tensors named case/what: the inputs, PyTorch's output, the gradient that comes in and those that go out.
MSSTREAM_TORCH_RESULTS names the file to the tests. Exits with 77 where there is no PyTorch.
"""
import argparse
import sys

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import save_file
except ImportError as missing:
    print(f"torch_results: {missing}", file=sys.stderr)
    sys.exit(77)

ROWS, BAGS, SEGMENTS, PLACES = 500, 300, 200, 3000
WIDTHS = (1, 3, 16, 33, 128)


def lengths_with_gaps(count, longest):
    """The first, the last and every third are empty."""
    lengths = torch.randint(0, longest + 1, (count,))
    lengths[::3] = 0
    lengths[-1] = 0
    return lengths


def offsets_of(lengths):
    return F.pad(lengths.cumsum(0), (1, 0))


def few_values(shape):
    """Whole numbers, so that segments have ties, negative ones and zeros among them."""
    return torch.randint(-3, 4, shape).float()


class Results:
    def __init__(self, device):
        self.device, self.tensors = device, {}

    def keep(self, case, **tensors):
        for what, tensor in tensors.items():
            self.tensors[f"{case}/{what}"] = tensor.detach().cpu().contiguous()

    def embedding_bags(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for width in WIDTHS:
                for mode in ("sum", "mean", "max", "weighted"):
                    if dtype == torch.bfloat16 and mode == "max":
                        continue  # PyTorch has no max of bfloat16
                    table = torch.randn(ROWS, width, dtype=dtype).to(self.device).requires_grad_()
                    offsets = offsets_of(lengths_with_gaps(BAGS, 9)).to(self.device)
                    ids = torch.randint(0, ROWS, (int(offsets[-1]),), device=self.device)
                    weights = torch.rand(ids.shape, dtype=dtype, device=self.device) if mode == "weighted" else None
                    pooled = F.embedding_bag(ids, table, offsets, mode="sum" if mode == "weighted" else mode,
                                             per_sample_weights=weights, include_last_offset=True)
                    incoming = torch.randn_like(pooled)
                    outgoing, = torch.autograd.grad(pooled, table, incoming)
                    name = str(dtype).removeprefix("torch.")
                    self.keep(f"embedding/{name}/{mode}/{width}", table=table, ids=ids, offsets=offsets, pooled=pooled,
                              incoming=incoming, outgoing=outgoing)
                    if weights is not None:
                        self.keep(f"embedding/{name}/{mode}/{width}", weights=weights.float())

    def segments(self):
        for width in WIDTHS:
            for reduction in ("sum", "mean", "max", "min", "prod"):
                lengths = lengths_with_gaps(SEGMENTS, 12).to(self.device)
                values = few_values((int(lengths.sum()), width)).to(self.device).requires_grad_()
                reduced = torch.segment_reduce(values, reduction, lengths=lengths, unsafe=True)
                # For max and min, PyTorch divides a gradient among ties only if it is positive, and otherwise gives
                # all of it to each.
                shares = reduction in ("max", "min")
                incoming = torch.rand_like(reduced) if shares else torch.randn_like(reduced)
                outgoing, = torch.autograd.grad(reduced, values, incoming)
                self.keep(f"segment/{reduction}/{width}", values=values, offsets=offsets_of(lengths), reduced=reduced,
                          incoming=incoming, outgoing=outgoing)

    def unsorted_segments(self):
        names = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}
        for width in WIDTHS:
            for reduction, theirs in names.items():
                values = few_values((PLACES, width)).to(self.device)
                ids = torch.randint(0, SEGMENTS, (PLACES,), device=self.device)
                ids[ids == 7] = 8
                fill = 1.0 if reduction == "prod" else 0.0
                reduced = torch.full((SEGMENTS, width), fill, device=self.device).scatter_reduce(
                    0, ids.view(-1, 1).expand(PLACES, width), values, theirs, include_self=False)
                self.keep(f"unsorted/{reduction}/{width}", values=values, ids=ids, reduced=reduced,
                          counts=torch.bincount(ids, minlength=SEGMENTS))

    def ids(self):
        ids = torch.randint(-500, 500, (PLACES,), device=self.device)
        values, inverse, counts = torch.unique(ids, return_inverse=True, return_counts=True)
        self.keep("unique", ids=ids, values=values, inverse=inverse, counts=counts)
        rows = torch.randn(50, 700, device=self.device)
        rows[3, 5] = float("nan")
        values, indices = torch.topk(rows, 20)
        self.keep("top_k", rows=rows, values=values, indices=indices)

    def softmax(self):
        lengths = lengths_with_gaps(SEGMENTS, 12)
        values = torch.randn(int(lengths.sum()), device=self.device, requires_grad=True)
        parts = [part.softmax(0) for part in values.split(lengths.tolist())]
        softmax = torch.cat(parts)
        incoming = torch.randn_like(softmax)
        outgoing, = torch.autograd.grad(softmax, values, incoming)
        self.keep("jagged_softmax", values=values, offsets=offsets_of(lengths), softmax=softmax, incoming=incoming,
                  outgoing=outgoing)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.manual_seed(1)
    results = Results(options.device)
    for make in (results.embedding_bags, results.segments, results.unsorted_segments, results.ids, results.softmax):
        make()
    save_file(results.tensors, options.file, {"torch": torch.__version__, "device": options.device})


if __name__ == "__main__":
    main()
