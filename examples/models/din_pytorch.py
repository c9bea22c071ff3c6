# SPDX-License-Identifier: Apache-2.0
"""The program din.cpp in PyTorch, for comparison: the same model, training and evaluation."""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torcheval.metrics.functional import binary_auroc

from batches import histories

ITEMS, WIDTH = 1000, 16


class Dice(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width, affine=False)
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        p = torch.sigmoid(self.norm(x))
        return x * (p + self.weight * (1 - p))


def dice_layer(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, outputs), Dice(outputs))


class Din(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        nn.init.uniform_(self.items.weight, -0.05, 0.05)
        self.attention = dice_layer(3 * WIDTH, 36)
        self.score = nn.Linear(36, 1)
        self.hidden = dice_layer(3 * WIDTH, 64)
        self.logit = nn.Linear(64, 1)

    def forward(self, history, offsets, item):
        rows, wanted = self.items(history), self.items(item)
        users = torch.repeat_interleave(torch.arange(len(item), device=item.device), offsets.diff())
        beside = wanted[users]
        pairs = torch.cat([rows, rows - beside, rows * beside], dim=1)
        scores = self.score(self.attention(pairs))
        weights = (scores - scores.max()).exp()
        total = torch.zeros_like(wanted[:, :1]).index_add(0, users, weights)
        interest = torch.zeros_like(wanted).index_add(0, users, rows * weights / total[users])
        features = torch.cat([interest, wanted, interest * wanted], dim=1)
        return self.logit(self.hidden(features))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Din().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for history, offsets, items, labels in histories(0, 300_000, 256, device, clicks=True):
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(model(history, offsets, items), labels).backward()
        optimizer.step()
    torch.save(model.state_dict(), "din.pt")
    served = Din().to(device)
    served.load_state_dict(torch.load("din.pt"))
    served.eval()
    logits, targets = [], []
    with torch.no_grad():
        for history, offsets, items, labels in histories(300_000, 310_240, 256, device, clicks=True):
            logits.append(served(history, offsets, items))
            targets.append(labels)
    auc = binary_auroc(torch.cat(logits).flatten(), torch.cat(targets).flatten())
    print(f"held-out AUC {auc:.4f}")


main()
