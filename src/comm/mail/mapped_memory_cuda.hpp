// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mail/mailboxes.hpp"
#include "comm/peers.hpp"

#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace msstream::comm::detail {

/// Reports that memory could not be mapped on some rank. Thrown on all ranks alike, which stay in
/// step.
class NotMapped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns whether the GPUs of all ranks reach each other's memory over NVLink, and the ranks are
/// on one host, no more than Mailboxes::kMostRanks, with a GPU of its own each. Lets this rank's
/// GPU reach the memory of threads' GPUs. All ranks call it alike; blocks the host until they have.
[[nodiscard]] bool are_mapped(msstream::detail::Backend& runtime, Peers& peers);

/// Memory of each rank's GPU that the GPUs of all ranks read and write. Freed when no rank that is
/// a thread of this process has it any more.
class MappedMemory {
 public:
  /// Allocates as many bytes on each rank, zeros from the beginning as far as `zeros` says. All
  /// ranks, for which are_mapped() holds, call it alike; blocks the host until they have. Throws
  /// NotMapped on all ranks, with the reason, if one of them cannot.
  MappedMemory(std::shared_ptr<msstream::detail::Backend> const& runtime,
               Peers& peers,
               std::size_t bytes,
               std::size_t zeros = 0);
  ~MappedMemory();
  MappedMemory(MappedMemory const&) = delete;
  MappedMemory& operator=(MappedMemory const&) = delete;

  /// Returns the memory of each rank, as this rank's GPU reaches it.
  [[nodiscard]] std::array<std::byte*, Mailboxes::kMostRanks> const& of_rank() const noexcept {
    return of_rank_;
  }

 private:
  class Own;
  class OfThreads;

  /// Unmaps the memory of other processes.
  void close() noexcept;

  std::shared_ptr<msstream::detail::Backend> runtime_;
  msstream::detail::HomeProcess home_{RuntimeLife::driver};
  std::array<std::byte*, Mailboxes::kMostRanks> of_rank_{};
  std::vector<std::shared_ptr<Own>> owners_;  ///< of this rank, and of those that are threads
  std::vector<void*> opened_;                 ///< of other processes
};

}  // namespace msstream::comm::detail
