// SPDX-License-Identifier: Apache-2.0
#include "training/precision_option.hpp"

#include <fmt/core.h>

namespace msstream::training {

char const* name_of(Precision precision) {
  constexpr char const* kNames[] = {"fp32", "bf16", "fp16"};
  return kNames[static_cast<int>(precision)];
}

void add_precision_option(cli::Options& options, Precision& chosen, std::string_view what) {
  options.add_choice(
      "--precision",
      chosen,
      {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}},
      fmt::format("{}; fp16 scales the loss", what));
}

void check_precision(Precision chosen, RankOptions const& ranks) {
  if (chosen == Precision::fp16 && ranks.parts() > 1) {
    throw cli::UsageError(fmt::format(
        "--precision fp16 is for batches in one part, found {} by --ranks, --parallel or "
        "--reproducible; bf16 needs no loss scale",
        ranks.parts()));
  }
}

}  // namespace msstream::training
