# SPDX-License-Identifier: Apache-2.0
"""The program two_tower.cpp in PyTorch, for comparison: the same model, training and evaluation."""
import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from batches import histories

ITEMS, WIDTH = 1000, 32


def tower():
    return nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.EmbeddingBag(ITEMS, WIDTH, mode="mean")
        nn.init.uniform_(self.items.weight, -0.05, 0.05)
        self.user, self.item = tower(), tower()

    def users(self, history, offsets):
        return normalize(self.user(self.items(history, offsets[:-1])))

    def candidates(self, ids):
        return normalize(self.item(self.items.weight[ids]))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = TwoTower().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    diagonal = torch.arange(256, device=device)
    for history, offsets, items, _ in histories(0, 60_000, 256, device, drop_last=True):
        optimizer.zero_grad()
        scores = 10 * model.users(history, offsets) @ model.candidates(items).T
        repeated = (items[:, None] == items) & (diagonal[:, None] != diagonal)  # no negatives
        cross_entropy(scores.masked_fill(repeated, -torch.inf), diagonal).backward()
        optimizer.step()
    torch.save(model.state_dict(), "two_tower.pt")
    found = 0
    with torch.no_grad():
        catalogue = model.candidates(torch.arange(ITEMS, device=device))
        for history, offsets, items, _ in histories(60_000, 64_096, 256, device):
            top = (model.users(history, offsets) @ catalogue.T).topk(5).indices
            found += (top == items[:, None]).sum().item()
    print(f"held-out recall@5 {found / 4096:.4f}")


main()
