// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <cstdint>
#include <string>

namespace msstream::doctor {

/// Whether a device and its driver have a feature, and which of them lacks it.
enum class Available : std::uint8_t { yes, not_by_driver, not_by_device };

/// The features of one device and of its driver that not all have, as found at run time.
struct FeatureFacts {
  int device = 0;
  Available concurrent_kernels = Available::not_by_device;
  Available priorities = Available::not_by_device;
  int priority_levels = 1;
  Available pages = Available::not_by_device;         ///< virtual memory management
  Available memory_pools = Available::not_by_device;  ///< cudaMallocAsync
  Available green_contexts = Available::not_by_device;
  int most_sm_parts = 1;  ///< the most equal parts of the multiprocessors
  Available green_streams = Available::not_by_driver;  ///< cuGreenCtxStreamCreate
  Available host_access = Available::not_by_device;    ///< kernels access pinned memory
  Available graph_updates = Available::not_by_device;  ///< by kernels, of graphs that run
  Available multicast = Available::not_by_device;
  Available fp8_products = Available::not_by_device;  ///< of 8-bit floats, on tensor cores
  int copy_engines = 0;
};

/// Returns whether there are green contexts. The parts of the multiprocessors are known only with a
/// driver that also has streams of such contexts.
[[nodiscard]] Available green_contexts_of(bool driver_has_contexts,
                                          bool driver_has_streams,
                                          int most_sm_parts) noexcept;

[[nodiscard]] Lines feature_lines(FeatureFacts const& facts);

}  // namespace msstream::doctor
