// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

#include <msstream/ops/precision.hpp>

#include <string_view>

/// The option --precision of programs.
namespace msstream::cli {

/// Returns the value of the option: `fp32`, `bf16` or `fp16`.
[[nodiscard]] std::string_view name_of(Precision precision);

/// Adds the option, under the title that was set last. `what` says in a few words what has the
/// precision.
void add_precision_option(Options& options, Precision& chosen, std::string_view what);

}  // namespace msstream::cli
