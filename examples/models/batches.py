# SPDX-License-Identifier: Apache-2.0
"""The rows of clicks.hpp and histories.hpp for the programs in PyTorch, in batches and in order."""
import numpy as np
import torch

NUMBERS, FIELDS, ROWS = 13, 26, 100
ITEMS, TOPICS = 1000, 50
WORD = (1 << 64) - 1


def uniform(what, a, b):
    with np.errstate(over="ignore"):
        bits = (np.uint64(what) * np.uint64(0x9E3779B97F4A7C15)
                + np.asarray(a, np.uint64) * np.uint64(0xBF58476D1CE4E5B9) + np.asarray(b, np.uint64))
        for _ in range(3):
            bits = (bits ^ (bits >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    return ((bits ^ (bits >> np.uint64(33))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def hidden(what, a, b):
    return (uniform(what, a, b) - 0.5) * np.sqrt(12.0)


def clicks(begin, end, batch, device):
    """Yields dense [rows, 13], ids [rows, 26] and labels [rows, 1]."""
    for first in range(begin, end, batch):
        rows = np.arange(first, min(first + batch, end), dtype=np.uint64)
        numbers = hidden(1, rows[:, None], np.arange(NUMBERS))
        z = -1.0 + 0.15 * numbers @ hidden(2, np.arange(NUMBERS), 0)
        draws = uniform(3, rows[:, None], np.arange(FIELDS))
        ids = (draws * draws * ROWS).astype(np.int64)
        z = z + 0.2 * hidden(4, np.arange(FIELDS), ids).sum(axis=1)
        for field in range(0, 11, 2):
            for k in range(2):
                z += 0.4 * hidden(5 + k, field, ids[:, field]) * hidden(7 + k, field, ids[:, field + 1])
        labels = (uniform(9, rows, 0) < 1.0 / (1.0 + np.exp(-z))).astype(np.float32)
        yield (torch.from_numpy(numbers.astype(np.float32)).to(device), torch.from_numpy(ids).to(device),
               torch.from_numpy(labels[:, None]).to(device))


class Draws:
    def __init__(self, seed):
        self.state = seed * 0x9E3779B97F4A7C15 & WORD

    def below(self, limit):
        self.state = self.state + 0x9E3779B97F4A7C15 & WORD
        bits = (self.state ^ self.state >> 30) * 0xBF58476D1CE4E5B9 & WORD
        bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & WORD
        return ((bits ^ bits >> 31) >> 2) % limit


def user(number, with_clicks):
    draws = Draws(number)
    topics = draws.below(TOPICS), draws.below(TOPICS)

    def item():
        topic = topics[draws.below(2)] if draws.below(8) > 0 else draws.below(TOPICS)
        rank = draws.below(ITEMS // TOPICS) * draws.below(ITEMS // TOPICS)
        return topic + TOPICS * (rank * TOPICS // ITEMS)

    is_long = draws.below(30) == 0
    history = [item() for _ in range(33 + draws.below(200) if is_long else 4 + draws.below(20))]
    is_next = not with_clicks or draws.below(2) == 0
    return history, item() if is_next else draws.below(ITEMS), float(is_next)


def histories(begin, end, batch, device, drop_last=False, clicks=False):
    """Yields history [places], offsets [rows + 1], items [rows] and labels [rows, 1]."""
    for first in range(begin, end, batch):
        users = [user(number, clicks) for number in range(first, min(first + batch, end))]
        if drop_last and len(users) < batch:
            return
        lengths = [len(history) for history, _, _ in users]
        yield (torch.tensor([item for history, _, _ in users for item in history], device=device),
               torch.tensor(np.concatenate([[0], np.cumsum(lengths)]), device=device),
               torch.tensor([item for _, item, _ in users], device=device),
               torch.tensor([[label] for _, _, label in users], device=device))
