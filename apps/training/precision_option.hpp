// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"
#include "training/rank_options.hpp"

#include <msstream/ops/precision.hpp>

#include <string_view>

/// The option --precision of training programs.
namespace msstream::training {

/// Returns the value of the option: `fp32`, `bf16` or `fp16`.
[[nodiscard]] char const* name_of(Precision precision);

/// Adds the option, under the title that was set last. `what` says in a few words what has the
/// precision.
void add_precision_option(cli::Options& options, Precision& chosen, std::string_view what);

/// Throws UsageError for float16 and batches in several parts: the ranks report the mean of their
/// losses, which are scaled then.
void check_precision(Precision chosen, RankOptions const& ranks);

}  // namespace msstream::training
