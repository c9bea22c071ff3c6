// SPDX-License-Identifier: Apache-2.0
#include "cli/precision_option.hpp"

#include <msstream/memory/device.hpp>

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

bool default_tf32() {
  return DeviceOptions<Host>{}.matmul_precision == MatmulPrecision::tf32;
}

void add_tf32_option(Options& options, bool& chosen) {
  options.add_flag(
      "--tf32", chosen, "products of float32 matrices on the tensor cores, where there are");
}

}  // namespace msstream::cli
