# SPDX-License-Identifier: Apache-2.0
"""The program dlrm.cpp in PyTorch, for comparison: the same model, training, evaluation and checkpoint."""
import torch
from torch import nn
from torcheval.metrics.functional import binary_auroc

from batches import clicks

FIELDS, NUMBERS, ROWS, WIDTH = 26, 13, 100, 16


def dense_stack(inputs, widths):
    layers = []
    for outputs in widths:
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        inputs = outputs
    return layers


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(ROWS, WIDTH, mode="sum") for _ in range(FIELDS))
        for table in self.tables:
            nn.init.uniform_(table.weight, -0.05, 0.05)
        self.bottom = nn.Sequential(*dense_stack(NUMBERS, [64, WIDTH]))
        self.top = nn.Sequential(*dense_stack(WIDTH + 27 * 26 // 2, [64, 32, 1])[:-1])

    def forward(self, dense, ids):
        first = self.bottom(dense)
        rows = [table(ids[:, i:i + 1]) for i, table in enumerate(self.tables)]
        vectors = torch.stack([first, *rows], dim=1)
        i, j = torch.tril_indices(27, 27, offset=-1)
        products = (vectors @ vectors.mT)[:, i, j]
        return self.top(torch.cat([first, products], dim=1))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Dlrm().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for dense, ids, labels in clicks(0, 300_000, 512, device):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(dense, ids), labels)
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "dlrm.pt")
    model.eval()
    logits, targets = [], []
    with torch.no_grad():
        for dense, ids, labels in clicks(300_000, 320_480, 512, device):
            logits.append(model(dense, ids))
            targets.append(labels)
    auc = binary_auroc(torch.cat(logits).flatten(), torch.cat(targets).flatten())
    print(f"held-out AUC {auc:.4f}")


main()
