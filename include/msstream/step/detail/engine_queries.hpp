// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/block_ref.hpp>

#include <cstdint>
#include <memory>

namespace msstream::detail {

struct DeviceState;
class StreamGroup;

/// What the operations that the calling thread issues to a device inherit from the thread's
/// innermost StreamScope there.
struct CurrentScope {
  std::shared_ptr<StreamGroup> group;  ///< null outside every scope
  bool includes_grad = false;
};
/// Allocates nothing.
[[nodiscard]] CurrentScope current_scope(DeviceState const& device) noexcept;

/// Returns whether the calling thread captures work of the device.
[[nodiscard]] bool is_capturing(DeviceState const& device) noexcept;

/// Returns how many times work on the device's launch threads has failed so far.
[[nodiscard]] std::uint64_t launch_failures(DeviceState const& device) noexcept;

/// Returns whether the tensor that owns the block has been frozen.
[[nodiscard]] bool is_immutable(memory::BlockRef const& block) noexcept;

}  // namespace msstream::detail
