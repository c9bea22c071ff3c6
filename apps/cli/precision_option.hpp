// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

#include <msstream/ops/precision.hpp>

#include <string_view>

/// The options --precision and --tf32 of programs.
namespace msstream::cli {

/// Returns the value of the option: `fp32`, `bf16` or `fp16`.
[[nodiscard]] std::string_view name_of(Precision precision);

/// Adds the option, under the title that was set last. `what` says in a few words what has the
/// precision.
void add_precision_option(Options& options, Precision& chosen, std::string_view what);

/// Returns the default of --tf32, which MSSTREAM_MATMUL_PRECISION sets. Throws
/// std::invalid_argument for a bad value of the variable.
[[nodiscard]] bool default_tf32();
/// Adds the option --tf32, under the title that was set last.
void add_tf32_option(Options& options, bool& chosen);

}  // namespace msstream::cli
