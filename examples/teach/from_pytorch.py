#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of docs/coming-from-pytorch.md; from_pytorch.cpp is the other one.

Runs each part and checks its results. Parts that need a GPU, TorchRec, safetensors, torcheval or torchmetrics are left
out without them, by a message. The status is 77 if Python has no PyTorch.
"""
import os
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
    from torch.optim.swa_utils import get_ema_multi_avg_fn
    from torch.utils.data import DataLoader, Dataset
except ImportError:
    print("SKIPPED: Python has no PyTorch")
    sys.exit(77)


def parameters():
    model = nn.Linear(13, 1)
    weight = nn.init.kaiming_normal_(nn.Parameter(torch.empty(64, 13)))
    bias = nn.Parameter(torch.zeros(64))
    table = nn.init.normal_(nn.Parameter(torch.empty(10_000, 16)), 0, 0.01)
    mlp = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    for name, parameter in model.named_parameters(): ...
    for parameter in mlp.parameters(): parameter.requires_grad = False
    for parameter in mlp[0].parameters(): parameter.requires_grad = True
    assert name == "bias" and F.linear(torch.ones(2, 13), weight, bias).shape == (2, 64) and table.std() < 0.02
    assert [one.requires_grad for one in mlp.parameters()] == [True, True, False, False, False, False]


def training():
    model, x, y = nn.Linear(13, 1), torch.randn(8, 13), torch.ones(8, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for i in range(3):
        loss = F.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        scores = torch.sigmoid(model(x))
    assert scores.shape == (8, 1) and not scores.requires_grad


def schedules():
    model = nn.Linear(13, 1)
    biases, weights = [model.bias], [model.weight]
    loader = [(torch.randn(8, 13), torch.ones(8, 1)) for _ in range(4)]
    optimizer = torch.optim.AdamW([{"params": biases, "weight_decay": 0}, {"params": weights}], 1e-3, weight_decay=0.01)
    scheduler = SequentialLR(optimizer, [LinearLR(optimizer, 0.1, 1, 9), CosineAnnealingLR(optimizer, 90)], [10])
    averages = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    for i, (x, y) in enumerate(loader):
        (F.binary_cross_entropy_with_logits(model(x), y) / 2).backward()
        if i % 2 == 1:  # accumulation
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            averages.update_parameters(model)
            optimizer.zero_grad()
    scores = averages.module(x)
    assert scores.shape == (8, 1) and scheduler.get_last_lr()[0] > 1e-4


def losses():
    x, y, w, negatives = torch.randn(4), torch.ones(4), torch.full((4,), 2.0), torch.randn(4)
    logits, classes, row_weight = torch.randn(4, 3), torch.tensor([0, 1, -100, 2]), torch.ones(4)
    ids, scores = torch.tensor([7, 8, 7, 9]), torch.randn(4, 4)
    weighed = F.binary_cross_entropy_with_logits(x, y, weight=w, pos_weight=torch.tensor(2.0))
    squared = F.mse_loss(x, y)
    pairs = -F.logsigmoid(x - negatives).mean()
    ranking = F.margin_ranking_loss(x, negatives, torch.ones_like(negatives), margin=0.5)
    smoothed = F.cross_entropy(logits, classes, ignore_index=-100, label_smoothing=0.1)
    each = F.cross_entropy(logits, classes, ignore_index=-100, reduction="none")
    per_row = (each * row_weight).sum() / row_weight[classes != -100].sum()
    hits = (ids == ids[:, None]) & ~torch.eye(len(ids), dtype=torch.bool)  # no negatives
    in_batch = F.cross_entropy(scores.masked_fill(hits, -torch.inf), torch.arange(len(ids)))
    assert torch.isclose(per_row, F.cross_entropy(logits, classes))
    assert all(one.isfinite() for one in (weighed, squared, pairs, ranking, smoothed, in_batch))


class ClickDataset(Dataset):
    """Rows of numbers, a line each."""

    def __init__(self, path):
        self.rows = [torch.tensor([float(word) for word in line.split(",")]) for line in Path(path).read_text().split()]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def batches(device):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("clicks.csv").write_text("1,38\n0,27\n")
        loader = DataLoader(ClickDataset("clicks.csv"), batch_size=256, shuffle=True, num_workers=2, pin_memory=True)
        for batch in loader:
            batch = batch.to(device, non_blocking=True)
            assert batch.shape == (2, 2)
        os.chdir("/")


def embeddings():
    table = torch.randn(10, 8)
    ids, offsets, wanted = torch.tensor([1, 2, 3, 4]), torch.tensor([0, 3, 4]), torch.randn(2, 8)
    rows = F.embedding(ids, table)
    bags = F.embedding_bag(ids, table, offsets, mode="mean", include_last_offset=True)
    padded = torch.nested.nested_tensor_from_jagged(rows, offsets, max_seqlen=3).to_padded_tensor(0.0)
    beside = torch.repeat_interleave(wanted, offsets.diff(), dim=0)
    of_rows = torch.repeat_interleave(torch.arange(len(wanted)), offsets.diff())
    assert torch.allclose(bags[0], rows[:3].mean(0)) and padded.shape == (2, 3, 8)
    assert beside.shape == (4, 8) and of_rows.tolist() == [0, 0, 0, 1]


def tables_of_torchrec(torchrec):
    from torchrec import EmbeddingBagConfig, JaggedTensor, KeyedJaggedTensor
    lengths, all_ids = torch.tensor([3, 1, 4, 4]), torch.arange(12)
    ids, counts, users = torch.arange(4), torch.tensor([3, 1]), torch.arange(8)
    tables = torchrec.EmbeddingBagCollection(tables=[EmbeddingBagConfig(100, 8, "of_items", feature_names=["item"]),
                                                     EmbeddingBagConfig(50, 16, "of_users", feature_names=["user"])])
    pooled = tables(KeyedJaggedTensor.from_lengths_sync(["item", "user"], all_ids, lengths)).values()
    keyed = KeyedJaggedTensor.from_jt_dict({"item": JaggedTensor(ids, lengths=counts),
                                            "user": JaggedTensor(users, lengths=torch.tensor([4, 4]))})
    assert pooled.shape == (2, 24) and tables(keyed).values().shape == (2, 24)


def fused_optimizer(torchrec):
    from torchrec import EmbeddingBagConfig, KeyedJaggedTensor
    from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
    ids, lengths, y = torch.tensor([1, 2, 3, 4, 5, 6]), torch.tensor([3, 3]), torch.ones(2, 1)
    over = nn.Linear(8, 1)
    tables = torchrec.EmbeddingBagCollection(tables=[EmbeddingBagConfig(100, 8, "of_items", feature_names=["item"])])
    apply_optimizer_in_backward(torchrec.optim.RowWiseAdagrad, tables.parameters(), {"lr": 0.02})
    of_layers = torch.optim.Adam(over.parameters(), lr=1e-3)
    table = tables.embedding_bags["of_items"].weight
    before = table.detach().clone()
    pooled = tables(KeyedJaggedTensor.from_lengths_sync(["item"], ids, lengths)).values()
    F.mse_loss(over(pooled), y).backward()  # moves the tables
    of_layers.step()
    moved = (table.detach() != before).any(1)
    assert moved[1:7].all() and not moved[7:].any()


def layers():
    x, table = torch.randn(4, 3), torch.randn(100, 8)
    mean, var, weight, bias = torch.zeros(3), torch.ones(3), torch.ones(3), torch.zeros(3)
    dropped = F.dropout(x, 0.1)
    normed = F.batch_norm(x, mean, var, weight, bias, training=True)
    unit = F.normalize(x)
    activated = F.gelu(F.silu(torch.tanh(x)))
    drawn = torch.randint(0, 100, (4, 3))
    others = F.embedding(drawn, table)
    both = torch.cat([dropped, normed, unit, activated], dim=1)
    assert others.shape == (4, 3, 8) and both.shape == (4, 12)


def streams_of_branches():
    x = torch.ones(8, device="cuda")
    streams, parts = [torch.cuda.Stream() for _ in range(2)], []
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            parts.append(torch.relu(x))
    for stream, part in zip(streams, parts):
        torch.cuda.current_stream().wait_stream(stream)
        part.record_stream(torch.cuda.current_stream())
    total = parts[0] + parts[1]
    assert total.sum() == 16


def checkpoints(load_file, save_file):
    model = nn.Linear(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        save_file(model.state_dict(), path, metadata={"step": "10"})
        model.load_state_dict(load_file(path))


def metrics(torcheval, torchmetrics):
    scores, labels, loss = torch.tensor([-1.0, 2, 0]), torch.tensor([0, 1, 0]), torch.tensor(0.5)
    auc = torcheval.metrics.BinaryAUROC()
    auc.update(scores, labels)
    auc.compute()
    mean_loss = torchmetrics.MeanMetric()
    mean_loss.update(loss)
    assert auc.compute() == 1 and mean_loss.compute() == 0.5


def main():
    for part in (parameters, training, schedules, losses, embeddings, layers):
        part()
    batches(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    if torch.cuda.is_available():
        streams_of_branches()
    else:
        print("left out without a GPU: streams")
    try:
        import torchrec
    except ImportError:
        print("left out without torchrec: tables of TorchRec")
    else:
        tables_of_torchrec(torchrec)
        fused_optimizer(torchrec)
    try:
        from safetensors.torch import load_file, save_file
    except ImportError:
        print("left out without safetensors: checkpoints")
    else:
        checkpoints(load_file, save_file)
    try:
        import torcheval.metrics
        import torchmetrics
    except ImportError:
        print("left out without torcheval and torchmetrics: metrics")
    else:
        metrics(torcheval, torchmetrics)


if __name__ == "__main__":
    main()
