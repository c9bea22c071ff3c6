// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/runtime/operation.hpp>

#include <cstddef>
#include <memory>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::detail {

struct AccessRecord;
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
    /// For each stream, where its capture notes uses of the block; the block's
    /// own record for other streams, null for an immutable block. Empty if no stream is captured.
    std::vector<AccessRecord*> captured;
    /// The place of the call, by which a capture finds that the holder is open at its end. Null if
    /// no stream is captured.
    std::shared_ptr<std::source_location const> captured_at;

    /// Returns where the uses by a stream are noted. Null if they are not noted.
    [[nodiscard]] AccessRecord* record(std::size_t stream) const;
  };

  /// Sets Held::captured and captured_at, and tells the captures of the streams.
  void hold_in_captures(Held& held, std::source_location held_at) const;
  /// Announces to an observing runtime that the streams may use the block from now on.
  [[nodiscard]] OperationHandle announce(memory::BlockRef const& block,
                                         AccessMode mode,
                                         std::source_location held_at) const;

  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<Held> held_;
};

}  // namespace msstream::detail
