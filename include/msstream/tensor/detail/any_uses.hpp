// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/inline_vector.hpp>
#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/runtime/operation.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstddef>

namespace msstream::detail {

struct DeviceState;

/// A list of the memory that an operation reads, or of the memory that it writes, for any runtime.
/// Owns nothing: the memory must be kept until the operation is issued.
class AnyUses {
 public:
  struct Use {
    memory::Block* block;  ///< null for raw memory, which no operation waits for
    void const* begin;
    std::size_t bytes;
    AccessMode mode;
  };

  explicit AnyUses(AccessMode mode) noexcept : mode_(mode) {}

  void add(memory::Block& block, void const* begin, std::size_t bytes) {
    uses_.emplace_back(&block, begin, bytes, mode_);
  }
  void add(AnyTensor const& tensor) { add(*tensor.block(), tensor.data(), tensor.bytes()); }
  void add(AnyUses const& others) {
    for (auto const& use : others.uses_) {
      uses_.push_back(use);
    }
    device_ = others.device_ != nullptr ? others.device_ : device_;
  }
  /// Adds a range of device memory that msstream does not track.
  void add_raw(DeviceState& device, void const* begin, std::size_t bytes) {
    device_ = &device;
    uses_.push_back({nullptr, begin, bytes, mode_});
  }
  /// Changes the mode of all uses in the list to AccessMode::accumulate: additions that commute.
  void accumulate() noexcept {
    for (auto& use : uses_) {
      use.mode = AccessMode::accumulate;
    }
  }

  [[nodiscard]] auto const& uses() const noexcept { return uses_; }
  /// Returns the device of the raw memory in the list. Null if the list has no raw memory.
  [[nodiscard]] DeviceState* device() const noexcept { return device_; }

 private:
  InlineVector<Use, 8> uses_;
  DeviceState* device_ = nullptr;
  AccessMode mode_;
};

/// Returns a list of the tensors that an operation writes; the operation may read them too.
template <class... Uses>
[[nodiscard]] AnyUses any_writes(Uses const&... uses) {
  AnyUses list(AccessMode::write);
  (list.add(uses), ...);
  return list;
}

}  // namespace msstream::detail
