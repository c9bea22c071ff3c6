// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/block_ref.hpp>

#include <cstdint>
#include <memory>

namespace msstream::detail {

struct DeviceState;
class StreamGroup;

/// The calling thread's innermost StreamScope on a device. Valid as long as that scope is open.
struct CurrentScope {
  std::shared_ptr<StreamGroup> const* open = nullptr;  ///< null outside every scope
  bool includes_grad = false;

  /// Returns the scope's group; null outside every scope.
  [[nodiscard]] std::shared_ptr<StreamGroup> group() const noexcept {
    return open != nullptr ? *open : nullptr;
  }
};
/// Returns the scope. Allocates and counts nothing.
[[nodiscard]] CurrentScope current_scope(DeviceState const& device) noexcept;

/// Returns whether the calling thread captures work of the device.
[[nodiscard]] bool is_capturing(DeviceState const& device) noexcept;

/// Returns how many times work on the device's launch threads has failed so far.
[[nodiscard]] std::uint64_t launch_failures(DeviceState const& device) noexcept;

/// Returns whether the tensor that owns the block has been frozen.
[[nodiscard]] bool is_immutable(memory::BlockRef const& block) noexcept;

}  // namespace msstream::detail
