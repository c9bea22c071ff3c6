// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_NCCL

#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::comm::detail {

/// Calls a function on a thread of its own, and returns a future that is ready when the function
/// has returned and is destroyed. The function must own what it uses, and must not throw. Throws
/// std::logic_error while the process ends.
///
/// exit() waits a few seconds for these threads, before the driver and the static objects of NCCL
/// end: a thread inside NCCL would use them afterwards. It does not wait for a thread that cannot
/// end because `graphs`, the captured graphs that NCCL waits for, are still there.
[[nodiscard]] std::shared_future<void> call_alone(std::function<void()> function,
                                                  std::weak_ptr<void const> graphs = {});

/// Calls a function by call_alone(), and returns whether it has ended within the time.
bool ends_within(std::chrono::nanoseconds longest,
                 std::function<void()> function,
                 std::weak_ptr<void const> graphs = {});

/// A communicator of NCCL, with the memory on the device that its collectives use. Shared by the
/// transport and by captured graphs with collectives of the communicator.
///
/// NCCL's calls that end a communicator wait until no captured graph has its collectives. A thread
/// that waited so would go on when the program's last device destroys its graphs, which is often
/// the moment before exit(). So the last owner, which may be a graph, makes the call.
class NcclOwner : public std::enable_shared_from_this<NcclOwner> {
 public:
  /// Allocates `scratch_bytes` bytes on the device.
  NcclOwner(std::shared_ptr<msstream::detail::Backend> runtime, std::size_t scratch_bytes);
  /// Ends the communicator, if it has not ended. Its collectives must be complete.
  ~NcclOwner();
  NcclOwner(NcclOwner const&) = delete;
  NcclOwner& operator=(NcclOwner const&) = delete;

  [[nodiscard]] std::byte* scratch() const noexcept { return scratch_; }
  void set(ncclComm_t comm) noexcept { comm_.store(comm); }
  /// Stores what is to be freed after the communicator.
  void set_mail(std::shared_ptr<void const> mail) noexcept { mail_ = std::move(mail); }
  /// Returns what captured graphs with collectives of the communicator keep. Not thread-safe.
  [[nodiscard]] std::shared_ptr<void const> share_with_graph();

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  /// Stores windows that are to end with the communicator.
  void keep(std::vector<ncclWindow_t> windows) {
    windows_ = std::move(windows);
  }
#endif
  /// Ends the collectives in flight at once. The communicator has ended then, too, or ends with the
  /// last graph.
  void abort() noexcept;

 private:
  /// Holds the owner for captured graphs, which share it: it is gone when there are none.
  struct OfGraphs {
    std::shared_ptr<NcclOwner> owner;
  };

  /// Returns a function that frees the communicator, whose collectives are complete.
  [[nodiscard]] std::function<void()> end_of(ncclComm_t comm);

  std::shared_ptr<msstream::detail::Backend> runtime_;
  msstream::detail::HomeProcess home_{RuntimeLife::driver};
  std::size_t scratch_bytes_;
  std::byte* scratch_;
  std::atomic<ncclComm_t> comm_{nullptr};
  std::weak_ptr<OfGraphs const> graphs_;
  std::shared_ptr<void const> mail_;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  std::vector<ncclWindow_t> windows_;
#endif
};

}  // namespace msstream::comm::detail

#endif
