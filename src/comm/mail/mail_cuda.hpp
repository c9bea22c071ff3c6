// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mail/mail_limits.hpp"
#include "comm/mail/mailboxes.hpp"
#include "comm/mail/mapped_memory_cuda.hpp"
#include "comm/peers.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace msstream::comm::detail {

/// The collectives that kernels of our own carry out, between GPUs that reach each other's memory.
/// Shared by the transport and by captured graphs with its collectives.
///
/// They are as fast as NCCL's for a few KiB and faster up to some ten MiB, cost the host a launch,
/// add in the order of the ranks, send no more rows than are counted, and end when told to. NCCL
/// carries out the others: between hosts, and large ones.
///
/// Also has the memory of symmetric tensors, to which copy engines of other GPUs write. Copies from
/// other ranks are between two kernels in which the ranks meet: they end when told to, too.
///
/// Not thread-safe, but for stop() and symmetric memory.
class Mail : public std::enable_shared_from_this<Mail> {
 public:
  /// Returns the mail between all ranks of a communicator; null if their GPUs do not reach each
  /// other's memory, or have too little. All ranks call it alike, with equal settings; blocks the
  /// host until they have.
  [[nodiscard]] static std::shared_ptr<Mail> make(
      std::shared_ptr<msstream::detail::Backend> const& runtime,
      Peers& peers,
      CommunicatorSettings const& settings);
  Mail(std::shared_ptr<msstream::detail::Backend> runtime,
       Peers& peers,
       CommunicatorSettings const& settings);
  Mail(Mail const&) = delete;
  Mail& operator=(Mail const&) = delete;

  /// Returns which collectives are carried out here.
  [[nodiscard]] MailLimits const& limits() const noexcept { return limits_; }
  void put(msstream::detail::NativeStream stream, Part const& part) const;

  /// Returns memory of this rank, of as many bytes on each, which symmetric tensors have. All ranks
  /// call it alike; blocks the host until they have. Throws NotMapped on all ranks.
  [[nodiscard]] std::shared_ptr<void> symmetric_memory(Peers& peers, std::size_t bytes);
  /// Returns the place of memory in what symmetric_memory() has returned, equal on ranks that pass
  /// the same part of a symmetric tensor; -1 for other memory.
  [[nodiscard]] std::int64_t place_of(void const* memory) const;
  [[nodiscard]] bool has_symmetric_memory() const noexcept { return symmetric_count_.load() != 0; }

  /// Ends the kernels that run and those to come, without waiting for other ranks.
  void stop() noexcept;
  /// Returns a message if a count of rows was out of range in a kernel.
  [[nodiscard]] std::optional<std::string> bad_count() const;

 private:
  struct Signals {
    explicit Signals(std::shared_ptr<msstream::detail::Backend> of);
    ~Signals();
    Signals(Signals const&) = delete;
    Signals& operator=(Signals const&) = delete;

    std::shared_ptr<msstream::detail::Backend> runtime;
    msstream::detail::HomeProcess home{RuntimeLife::driver};
    MailSignals* shared;
  };

  struct Symmetric {
    std::shared_ptr<MappedMemory> memory;
    std::size_t bytes;
    std::int64_t number;  ///< of those made so far, the same on all ranks

    [[nodiscard]] std::byte* of(int rank) const {
      return memory->of_rank()[static_cast<std::size_t>(rank)];
    }
  };

  [[nodiscard]] static Mailboxes boxes_for(Peers const& peers, int most_sms);
  /// Puts one rank's part of an all-gather or all-to-all on a stream, carried out by copy engines.
  void put_on_engines(msstream::detail::NativeStream stream, Part const& part) const;
  /// Returns the symmetric memory in which some memory is, or null. The caller holds `mutex_`.
  [[nodiscard]] Symmetric const* symmetric_with(void const* memory) const;
  /// Returns the memory of a tensor on all ranks.
  [[nodiscard]] std::array<std::byte*, Mailboxes::kMostRanks> on_all_ranks(void* memory) const;
  void forget(MappedMemory const* memory) noexcept;

  std::shared_ptr<msstream::detail::Backend> runtime_;
  MailLimits limits_;
  Mailboxes boxes_;
  Signals signals_;
  MappedMemory memory_;
  mutable std::mutex mutex_;  ///< protects symmetric_
  std::vector<Symmetric> symmetric_;
  std::int64_t symmetric_made_ = 0;
  std::atomic<std::size_t> symmetric_count_{0};
};

}  // namespace msstream::comm::detail
