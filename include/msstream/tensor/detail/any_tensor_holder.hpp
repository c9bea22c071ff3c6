// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/runtime/operation.hpp>

#include <cstddef>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

struct AccessRecord;
class Stream;

/// The implementation of TensorHolder<R>, compiled once for all runtimes.
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
    /// For each stream of the holder, the record of accesses to the block: the capture's record if
    /// the stream is captured, otherwise the block's own, or null for an immutable block. Empty if
    /// no stream is captured.
    std::vector<AccessRecord*> captured;
    /// The error that a capture throws if it ends while the holder is still open. Null if no stream
    /// is captured.
    std::shared_ptr<std::string const> in_captures;

    /// Returns the record of accesses to the block by stream number `stream` of the holder. Null if
    /// accesses are not recorded.
    [[nodiscard]] AccessRecord* record(std::size_t stream) const;
  };

  /// Sets Held::captured and in_captures, and registers the held block with the captures of the
  /// holder's streams, if any.
  void hold_in_captures(Held& held, std::source_location held_at) const;
  /// Announces to an observing runtime that the holder's streams may use the block from now on.
  [[nodiscard]] OperationHandle announce(memory::BlockRef const& block,
                                         AccessMode mode,
                                         std::source_location held_at) const;

  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<Held> held_;
};

}  // namespace msstream::detail
