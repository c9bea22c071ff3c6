#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's optimizers and schedules give: torch_optimizers.py > torch_optimizers.hpp

Weights and gradients are numbers that float32 represents exactly, so that the test computes them again. Exits with 77
where there is no PyTorch.
"""
import sys

try:
    import torch
except ImportError as missing:
    print(f"torch_optimizers: {missing}", file=sys.stderr)
    sys.exit(77)

COUNT, STEPS = 6, 100
START = torch.tensor([1 + i / 8 for i in range(COUNT)])


def gradient(step):
    """The gradient of step 1 and later."""
    return torch.tensor([((7 * i + 13 * step) % 17 - 8) / 16 + 1 / 32 for i in range(COUNT)])


RULES = {
    "sgd": (".kind = OptimizerKind::sgd, .learning_rate = 0.01F, .weight_decay = 0.25F",
            lambda w: torch.optim.SGD(w, lr=0.01, weight_decay=0.25)),
    "momentum": (".kind = OptimizerKind::momentum, .learning_rate = 0.01F, .beta1 = 0.75F, .weight_decay = 0.25F",
                 lambda w: torch.optim.SGD(w, lr=0.01, momentum=0.75, weight_decay=0.25)),
    "adagrad": (".kind = OptimizerKind::adagrad, .learning_rate = 0.01F, .epsilon = 1e-7F, .weight_decay = 0.25F",
                lambda w: torch.optim.Adagrad(w, lr=0.01, eps=1e-7, weight_decay=0.25)),
    "adam": (".kind = OptimizerKind::adam, .learning_rate = 0.01F",
             lambda w: torch.optim.Adam(w, lr=0.01)),
    "adam_with_decay": (".kind = OptimizerKind::adam, .learning_rate = 0.01F, .weight_decay = 0.25F",
                        lambda w: torch.optim.Adam(w, lr=0.01, weight_decay=0.25)),
    "adamw": (".kind = OptimizerKind::adamw, .learning_rate = 0.01F, .weight_decay = 0.25F",
              lambda w: torch.optim.AdamW(w, lr=0.01, weight_decay=0.25)),
    "rmsprop": (".kind = OptimizerKind::rmsprop, .learning_rate = 0.01F, .beta2 = 0.99F, .weight_decay = 0.25F",
                lambda w: torch.optim.RMSprop(w, lr=0.01, alpha=0.99, weight_decay=0.25)),
}

SCHEDULES = {
    "step_decay": ("Schedule::step_decay({.every = 7, .factor = 0.5F})",
                   lambda o: torch.optim.lr_scheduler.StepLR(o, 7, 0.5)),
    "polynomial": ("Schedule::polynomial({.steps = 20, .power = 2.0F})",
                   lambda o: torch.optim.lr_scheduler.PolynomialLR(o, 20, 2.0)),
    "cosine": ("Schedule::cosine({.steps = 20, .end = 0.125F})",
               lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20, 0.125)),
    "warmup": ("Schedule::constant({.steps = 5, .from = 0.5F})",
               lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.6, 1, 4)),
    "warmup_step_decay": ("Schedule::step_decay({.every = 7, .factor = 0.5F, .warmup = {.steps = 5}})",
                          lambda o: after_warmup(o, torch.optim.lr_scheduler.StepLR(o, 7, 0.5))),
    "warmup_polynomial": ("Schedule::polynomial({.steps = 20, .power = 2.0F, .warmup = {.steps = 5}})",
                          lambda o: after_warmup(o, torch.optim.lr_scheduler.PolynomialLR(o, 15, 2.0))),
    "warmup_cosine": ("Schedule::cosine({.steps = 20, .end = 0.125F, .warmup = {.steps = 5}})",
                      lambda o: after_warmup(o, torch.optim.lr_scheduler.CosineAnnealingLR(o, 15, 0.125))),
}


def after_warmup(optimizer, schedule):
    # The factors 0.2, 0.4 ... 1 of five steps are those of LinearLR with four.
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1, 4)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, schedule], [5])


def weights_after(make, steps, clip_norm=None):
    weight = START.clone().requires_grad_()
    optimizer = make([weight])
    for step in range(1, steps + 1):
        weight.grad = gradient(step)
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_([weight], clip_norm)
        optimizer.step()
    return weight.detach().tolist()


def factors(make):
    optimizer = torch.optim.SGD([START.clone().requires_grad_()], lr=1.0)
    schedule = make(optimizer)
    found = []
    for _ in range(20):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def numbers(values):
    return "{" + ", ".join(repr(value) for value in values) + "}"


def main():
    print("// SPDX-License-Identifier: Apache-2.0")
    print(f"// Written by torch_optimizers.py with PyTorch {torch.__version__}.")
    print("// clang-format off")
    print("#pragma once\n\n#include <msstream/ops/optimizer_rule.hpp>\n#include <msstream/ops/schedule.hpp>\n\n#include <vector>")
    print("\nnamespace msstream::testing {\n\nusing ops::OptimizerKind;\n")
    print(f"inline constexpr int kTorchCount = {COUNT};\ninline constexpr int kTorchSteps = {STEPS};\n")
    print("struct TorchRule {\n  char const* name;\n  ops::OptimizerRule rule;\n"
          "  float clip_norm;  ///< 0 for none\n"
          "  std::vector<double> after_one;\n  std::vector<double> after_all;\n};\n")
    print("inline std::vector<TorchRule> const kTorchRules = {")
    for name, (rule, make) in RULES.items():
        print(f'    {{"{name}", {{{rule}}}, 0.0F,\n     {numbers(weights_after(make, 1))},\n     '
              f"{numbers(weights_after(make, STEPS))}}},")
    for name in ("sgd", "adam"):
        rule, make = RULES[name]
        print(f'    {{"{name}_clipped", {{{rule}}}, 0.5F,\n     {numbers(weights_after(make, 1, 0.5))},\n     '
              f"{numbers(weights_after(make, STEPS, 0.5))}}},")
    print("};\n\nstruct TorchSchedule {\n  char const* name;\n  Schedule schedule;\n  std::vector<double> factors;\n};\n")
    print("inline std::vector<TorchSchedule> const kTorchSchedules = {")
    for name, (schedule, make) in SCHEDULES.items():
        print(f'    {{"{name}", {schedule},\n     {numbers(factors(make))}}},')
    print("};\n\n}  // namespace msstream::testing")


if __name__ == "__main__":
    main()
