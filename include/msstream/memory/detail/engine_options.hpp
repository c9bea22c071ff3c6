// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/allocator_options.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace msstream::detail {

class DependencyTracker;

/// The members of DeviceOptions that do not depend on the runtime type. DeviceOptions describes
/// them.
struct EngineOptions {
  bool reduce_waits;
  std::function<void(std::string const&)> explain_waits;
  AllocatorOptions memory;
  MatmulPrecision matmul_precision;
  std::size_t workspace_bytes;
  bool tune_products;
  std::shared_ptr<DependencyTracker> tracker;  ///< null: the device makes its own
};

}  // namespace msstream::detail
