// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

#include <msstream/ops/precision.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/non_finite_locator.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// The command-line options of training programs for models in float16.
namespace msstream::training {

struct Float16Options {
  std::string loss_scale = "dynamic";  ///< `dynamic`, or the number of a scale that never changes
  bool find_overflow = false;

  /// Returns whether the scale is a number that the options give.
  [[nodiscard]] bool has_static_scale() const { return loss_scale != "dynamic"; }
};

/// Adds --loss-scale and --find-overflow, under the title that was set last.
void add_options(cli::Options& options, Float16Options& chosen);
/// Returns how the loss of a model of that precision is scaled; null if it is not. Throws
/// UsageError for a scale that is none, and for an option that is chosen with another precision
/// than float16.
[[nodiscard]] std::optional<LossScaleOptions> loss_scale_of(Float16Options const& chosen,
                                                            Precision precision);
/// Returns the options as JSON, for a program's report.
[[nodiscard]] nlohmann::ordered_json describe(Float16Options const& chosen);

/// Returns the patterns of the tensors of a checkpoint that a resumed run leaves out: with a static
/// scale, that of the file.
[[nodiscard]] std::vector<std::string> not_resumed(Float16Options const& chosen);

/// Returns a finding as JSON, for a program's report: `layer`, `phase`, `operation`, and `what` for
/// people to read. Null if nothing was found. Waits for the searches that were issued.
[[nodiscard]] nlohmann::ordered_json first_overflow(
    NonFiniteLocator<detail::AnyRuntime> const& locator);
/// Returns the finding of the first of all ranks that has one, with the number of the rank as
/// `rank` if there are several. `texts` are their findings as text, in the order of the ranks.
[[nodiscard]] nlohmann::ordered_json first_overflow_of_ranks(std::vector<std::string> const& texts);
/// Returns where the first overflow of this rank was, as a line without its end, for the message
/// about a training that diverged; empty if the locator is null or has found nothing.
[[nodiscard]] std::string overflow_of_rank(NonFiniteLocator<detail::AnyRuntime> const* locator);
/// Returns a warning, as a line, if most of the steps of a run were skipped, so that it has learnt
/// little or nothing; empty if not.
[[nodiscard]] std::string skipped_warning(Float16Options const& chosen,
                                          std::int64_t skipped,
                                          std::int64_t steps);
/// Prints a warning that a metric has no value, to the standard error.
void print_overflow_of_test(std::string_view message);
/// Returns value(), that of a metric on held-out rows. If some scores are not finite, which is a
/// std::invalid_argument that says so, and the loss is scaled, so that an overflow of float16 is
/// expected, prints a warning and returns null.
template <class Value>
[[nodiscard]] std::optional<double> value_unless_overflow(bool is_scaled, Value const& value) {
  try {
    return value();
  } catch (std::invalid_argument const& error) {
    if (!is_scaled ||
        std::string_view(error.what()).find(" have scores ") == std::string_view::npos) {
      throw;
    }
    print_overflow_of_test(error.what());
    return std::nullopt;
  }
}

/// Returns a line for people to read, from a finding as JSON.
[[nodiscard]] std::string overflow_line(nlohmann::ordered_json const& finding);

}  // namespace msstream::training
