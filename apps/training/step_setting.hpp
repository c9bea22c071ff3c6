// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>
#include <msstream/stream/stream_pool.hpp>

namespace msstream::training {

/// The way in which the steps of a training are issued. Results do not depend on it, except on the
/// precision.
struct StepSetting {
  int groups = 1;
  bool merge_streams = true;
  LaunchThreads launch_threads = LaunchThreads::none;
  int launch_thread_count = 0;
  bool captured = false;  ///< whether steps are captured, from the second on
  MatmulPrecision precision = MatmulPrecision::float32;
  bool reduce_waits = true;
  bool tables_together = false;  ///< see OptimizerOptions::tables_together
};

}  // namespace msstream::training
