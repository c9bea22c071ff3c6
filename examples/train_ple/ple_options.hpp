// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ple_shape.hpp"

#include <msstream/support/step_options.hpp>
#include <msstream/support/training_data.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace train_ple {

/// Each operation a branch, or few large ones.
enum class PleForm : std::uint8_t { branches, grouped };

/// What train_ple was asked to do; the values here are the defaults.
struct PleOptions : ms::support::StepOptions {
  std::string data;
  std::int64_t rows = 40'000;
  int tasks = PleShape{}.tasks;
  std::int64_t hotness = 4;
  std::int64_t holdout = 5;
  int reader_threads = 2;

  PleForm form = PleForm::branches;
  std::int64_t buckets = 0;  ///< 0: chosen by the data; of generated data 100,000
  /// All but the fields and the tasks, which the data has.
  PleShape shape;

  std::int64_t batch = 512;
  std::int64_t epochs = 1;
};

/// Throws support::UsageError for values that are not accepted or contradict each other,
/// support::HelpRequested.
[[nodiscard]] PleOptions parse_options(ms::support::Arguments const& arguments);

/// The options as the report shows them.
[[nodiscard]] nlohmann::ordered_json describe(PleOptions const& options);

/// Reads or generates. Throws support::DataError, and support::UsageError when what is left to
/// train on fills no batch.
[[nodiscard]] ms::support::TrainingData load_training_data(PleOptions const& options);

/// Trains as asked, writes the files asked for, and returns the report. Throws what goes wrong.
nlohmann::ordered_json train_on_host(PleOptions const& options,
                                     ms::support::TrainingData const& data);
nlohmann::ordered_json train_on_cuda(PleOptions const& options,
                                     ms::support::TrainingData const& data);

}  // namespace train_ple
