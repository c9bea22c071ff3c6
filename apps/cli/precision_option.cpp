// SPDX-License-Identifier: Apache-2.0
#include "cli/precision_option.hpp"

#include <string>

namespace msstream::cli {

std::string_view name_of(Precision precision) {
  constexpr std::string_view kNames[] = {"fp32", "bf16", "fp16"};
  return kNames[static_cast<int>(precision)];
}

void add_precision_option(Options& options, Precision& chosen, std::string_view what) {
  options.add_choice(
      "--precision",
      chosen,
      {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}},
      std::string(what));
}

}  // namespace msstream::cli
