// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/precision.hpp>
#include <msstream/ops/schedule.hpp>
#include <msstream/runtime/stream_ref.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/two_stage.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <cstdint>
#include <limits>
#include <optional>

namespace msstream::training {

/// The way in which the steps of a training are issued. Results do not depend on it, except on the
/// precision and on the rounding of tables.
struct StepSetting {
  int groups = 1;
  bool merge_streams = true;
  LaunchThreads launch_threads = LaunchThreads::none;
  int launch_thread_count = 0;
  bool captured = false;  ///< whether steps are captured, from the second on
  MatmulPrecision precision = MatmulPrecision::float32;
  bool reduce_waits = true;
  bool tables_together = false;  ///< see OptimizerOptions::tables_together
  OptimizerOptions::Rounding table_rounding =
      OptimizerOptions::Rounding::nearest;  ///< see OptimizerOptions::table_rounding
  std::uint64_t rounding_seed = 0;          ///< see OptimizerOptions::rounding_seed
  Precision copies = Precision::fp32;       ///< see OptimizerOptions::copies
  Schedule schedule = {};                   ///< see OptimizerOptions::schedule
  float clip_norm = std::numeric_limits<float>::infinity();  ///< see OptimizerOptions::clip_norm
  std::optional<LossScaleOptions> loss_scale = {};           ///< for gradients in float16
  std::optional<Staleness> two_stage = {};  ///< of steps in two stages, by a StagedTraining
  bool finds_overflow = false;  ///< whether the first overflow is searched for, by NonFiniteLocator
};

}  // namespace msstream::training
