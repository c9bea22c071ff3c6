// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/measure/device_measures.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace msstream::doctor {

/// The measurements to make on a GPU, and their sizes.
struct MeasurePlan {
  int device = 0;
  double link_gb_per_s = 0;                    ///< see DeviceMeasures
  bool max_connections_set = false;            ///< see DeviceMeasures
  std::size_t bytes = std::size_t{64} << 20U;  ///< of each copy; takes at most 3 times as much
  std::uint64_t kernel_ns = 1'000'000;         ///< how long kernels wait
  int streams = 128;                           ///< that should run at once
  /// After this time no other GPU is measured, since each needs a context.
  std::chrono::milliseconds limit_of_peers{2500};
};

/// Measures a GPU, in a few seconds. Calls `begin` with the name of each check before it. Checks
/// that fail are in the result; after a failure that lasts, the others are left out. Changes no
/// setting, and frees what it takes.
[[nodiscard]] DeviceMeasures measure_device(MeasurePlan const& plan,
                                            std::function<void(std::string_view)> const& begin);

}  // namespace msstream::doctor
