// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <string>
#include <vector>

namespace msstream::detail {

/// The memory blocks of weights and averages that a guard of ParameterAverages::swap_in() has
/// exchanged, in the whole process: an optimizer must not move them, nor a checkpoint save or load
/// them. Keeps the blocks alive. Thread-safe.
class SwappedWeights {
 public:
  SwappedWeights() = delete;

  /// Adds blocks, each of which counts as often as it is added.
  static void add(std::vector<memory::BlockRef> const& blocks);
  static void remove(std::vector<memory::BlockRef> const& blocks) noexcept;
  /// Throws std::logic_error if the tensor's block is swapped. The message begins with `call`.
  /// Costs one load if none is.
  static void refuse(char const* call, std::string const& name, AnyTensor const& tensor);
};

}  // namespace msstream::detail
