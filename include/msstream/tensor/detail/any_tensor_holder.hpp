// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/runtime/operation.hpp>

#include <memory>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::detail {

class Stream;

/// The body of every TensorHolder<R>, whatever the runtime.
class AnyTensorHolder {
 public:
  explicit AnyTensorHolder(std::vector<std::shared_ptr<Stream>> streams) noexcept
      : streams_(std::move(streams)) {}
  AnyTensorHolder(AnyTensorHolder const&) = delete;
  AnyTensorHolder& operator=(AnyTensorHolder const&) = delete;
  ~AnyTensorHolder();

  void hold(memory::BlockRef const& block, AccessMode mode, std::source_location held_at);
  void release();

 private:
  struct Held {
    memory::BlockRef block;
    AccessMode mode;
    OperationHandle observed;  ///< null if no runtime observes
  };

  /// Announces to an observing runtime that the streams may use the block from now on.
  [[nodiscard]] OperationHandle announce(memory::BlockRef const& block,
                                         AccessMode mode,
                                         std::source_location held_at) const;

  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<Held> held_;
};

}  // namespace msstream::detail
