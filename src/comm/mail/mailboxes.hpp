// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/collective.hpp"

#include <msstream/runtime/detail/backend.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>

namespace msstream::comm::detail {

/// Signals between kernels and the host, in pinned memory that both read and write.
struct MailSignals {
  int stop = 0;   ///< set by the host: kernels end without waiting for other ranks
  int fault = 0;  ///< set by a kernel, after what follows: a count of rows is out of range
  int from = 0;   ///< the rank that has the count
  int to = 0;     ///< the rank for which the rows are
  std::int64_t count = 0;
  std::int64_t capacity = 0;
  std::source_location issued_at = {};  ///< of this rank's call
};

/// The mailboxes of all ranks of a communicator, as one rank's GPU reaches them.
///
/// A rank's mailbox is memory of its GPU into which kernels of the other ranks write. It has slots
/// for each block of a kernel and each other rank. Blocks of the same number write to each other: a
/// block writes a piece into the next slot at the receiver and then counts it there (`ready`); the
/// receiver counts at the sender what it has read (`credit`), after which the slot is used again.
/// Both counts only grow, across kernels, so that nothing is reset between collectives. Each block
/// keeps in its own mailbox how far it has come with each rank (`sent`, `got`), and whether it has
/// ever been stopped, after which it does nothing any more.
///
/// A block waits for the blocks of its number on other ranks, and for no other block of its own
/// kernel. So a kernel may have more blocks than run at once.
struct Mailboxes {
  static constexpr int kMostRanks = 8;
  static constexpr int kMostPeers = kMostRanks - 1;
  static constexpr int kMostBlocks = 64;
  static constexpr int kSlots = 4;           ///< of a block for each other rank
  static constexpr std::size_t kLine = 128;  ///< bytes between counts, and before a slot's piece
  static constexpr std::size_t kCounts = 3;  ///< lines for a block and a rank: ready, credit, own
  static constexpr std::size_t kCountBytes = kMostBlocks * kMostPeers * kCounts * kLine;

  int rank = 0;
  int size = 1;
  int blocks = kMostBlocks;     ///< for which the mailboxes have slots; the same on all ranks
  std::size_t piece_bytes = 0;  ///< of a slot; a multiple of kLine
  std::array<std::byte*, kMostRanks> of_rank{};
  MailSignals* signals = nullptr;

  /// Returns the bytes of one rank's mailbox, of which the first kCountBytes begin as zeros.
  [[nodiscard]] std::size_t bytes_of_box() const noexcept {
    return kCountBytes + static_cast<std::size_t>(blocks) * static_cast<std::size_t>(size - 1) *
                             kSlots * (piece_bytes + kLine);
  }
};

/// Puts one rank's part of a collective on a stream of its GPU, as a kernel. Sums are in the order
/// of the ranks. Uses at most `most_blocks` blocks, the same number on all ranks. Throws CudaError.
void put_by_mail(msstream::detail::NativeStream stream,
                 Mailboxes const& boxes,
                 Part const& part,
                 int most_blocks);

/// Loads the kernels of put_by_mail() on the current GPU: CUDA otherwise loads them when they are
/// first launched. Throws CudaError.
void load_mail_kernels();

}  // namespace msstream::comm::detail
