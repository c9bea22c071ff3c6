// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl.hpp"
#include "comm/nccl/nccl_calls_cuda.hpp"
#include "comm/nccl/nccl_connect_cuda.hpp"
#include "comm/nccl/nccl_windows_cuda.hpp"
#include "comm/peers.hpp"
#include "comm/peers_transport.hpp"
#include "comm/timeout.hpp"

#include <stdexcept>

#if MSSTREAM_NCCL

#include <msstream/base/detail/require.hpp>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace msstream::comm::detail {
namespace {

using msstream::detail::NativeStream;

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0), "msstream needs NCCL 2.19 or newer");

/// Returns the lock for calls that put work of any communicator on a GPU. NCCL does not promise
/// that several threads may do so at once.
[[nodiscard]] std::mutex& lock_of_gpu(int ordinal) {
  static std::array<std::mutex, 64> locks;
  return locks[static_cast<std::size_t>(ordinal) % locks.size()];
}

/// Collectives between GPUs by NCCL.
///
/// States: sound until the first failure of its peers, then aborted, once the thread that watches
/// it has noticed. A failed communicator puts nothing on streams. Memory ordering: `mutex_`
/// protects the communicator against its end while NCCL is called.
///
/// NCCL's communicator is one whose calls block: with others, NCCL starts a thread for each call,
/// and goes on after the last one while the process ends.
class Nccl final : public PeersTransport<Peers> {
 public:
  Nccl(std::shared_ptr<msstream::detail::Backend> runtime,
       std::shared_ptr<Peers> peers,
       CommunicatorSettings const& settings,
       bool are_in_one_process)
      : PeersTransport(std::move(peers), settings.timeout),
        runtime_(std::move(runtime)),
        are_in_one_process_(are_in_one_process) {
    runtime_->make_current();
    calls_ = {.rank = peers_->rank(),
              .size = peers_->size(),
              .scratch = static_cast<std::byte*>(runtime_->allocate_device(scratch_bytes()))};
    if (settings.most_sms != 0) {
      calls_.most_blocks = settings.most_sms;
    }
    try {
      connect(calls_, runtime_, *peers_, settings, deadline_after(timeout_) + kForConnections);
    } catch (std::exception const& error) {
      runtime_->free_device(calls_.scratch, scratch_bytes());
      if (peers_->has_failed()) {
        throw;
      }
      auto const why = failure_text(error.what());
      peers_->lose(peers_->rank(), why);
      throw std::runtime_error(why);
    }
  }
  ~Nccl() override {
    if (!home_.is_left()) {
      abort();
      runtime_->free_device(calls_.scratch, scratch_bytes());
    }
  }

  void put(NativeStream stream,
           Part const& issued,
           std::shared_ptr<Transport> const& /*self*/) override {
    std::lock_guard const guard(mutex_);
    auto part = issued;
    auto const place = part.what.kind == CollectiveKind::all_to_all_counted
                           ? windows_.place_of(part)
                           : std::nullopt;
    part.what.place = place ? place->number : -1;
    peers_->announce(part);
    bool const is_empty = part.what.count == 0 && part.what.capacity == 0 &&
                          part.what.kind != CollectiveKind::barrier && part.counts == nullptr;
    if (calls_.comm == nullptr || is_empty || peers_->has_failed()) {
      return;
    }
    runtime_->make_current();
    ncclResult_t result = ncclSuccess;
    {
      std::lock_guard const on_gpu(lock_of_gpu(runtime_->ordinal()));
      called_at_.store(std::chrono::steady_clock::now());
      auto* const native = static_cast<cudaStream_t>(stream);
      result = place ? calls_.push(native, part, *place) : calls_.put(native, part);
      called_at_.store(kNever);
    }
    if (result != ncclSuccess && !peers_->has_failed()) {
      auto const why =
          failure_text(fmt::format("{}: {}", to_string(part), text_of(result, calls_.comm)));
      is_told_by_exception_.store(true);
      peers_->lose(peers_->rank(), why);
      throw std::runtime_error(why);
    }
  }

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  std::shared_ptr<void> symmetric_memory(std::size_t bytes,
                                         std::shared_ptr<Transport> const& self) override {
    if (bytes == 0) {
      return nullptr;
    }
    auto window = registered(bytes);
    auto* const memory = window.memory;
    std::shared_ptr<void> owner{
        memory, [self, this, handle = window.handle](void* own) { release(own, handle); }};
    window.of_ranks = addresses_of_ranks(memory);
    std::lock_guard const guard(mutex_);
    windows_.add(std::move(window));
    return owner;
  }
#endif

  void leave() noexcept override {
    end_if_failed();  // NCCL finishes only a communicator that is sound
    tell_left();
    end();
  }
  void abandon(std::string const& why) noexcept override {
    tell_abandoned(why);
    abort();
  }

  void end_if_failed() noexcept override {
    try {
      if (peers_->has_failed()) {
        abort();
      }
    } catch (...) {  // NOLINT(bugprone-empty-catch): the next call looks again
    }
  }
  void watch(bool is_in_flight, std::chrono::nanoseconds stalled) noexcept override {
    try {
      peers_->look(is_in_flight);
      if (!peers_->has_failed()) {
        look_for_errors();
      }
      // A call of NCCL that connects GPUs waits for the other ranks, too.
      auto const called_at = called_at_.load();
      bool const is_call_stalled =
          called_at != kNever && std::chrono::steady_clock::now() - called_at >= timeout_;
      if (((is_in_flight && stalled >= timeout_) || is_call_stalled) && !peers_->has_failed()) {
        peers_->time_out(timeout_);
      }
    } catch (...) {  // NOLINT(bugprone-empty-catch): the next call looks again
    }
    end_if_failed();
  }

 private:
  static constexpr std::chrono::steady_clock::time_point kNever{};
  /// How long NCCL may need for connections when all ranks have come.
  static constexpr auto kForConnections = std::chrono::seconds(60);

  /// Two elements of a byte for each rank.
  [[nodiscard]] std::size_t scratch_bytes() const {
    return 2 * static_cast<std::size_t>(peers_->size());
  }

  /// Fails if NCCL has noticed an error, such as the loss of a rank. First gives the ranks time to
  /// tell what has happened: NCCL does not know.
  void look_for_errors() {
    constexpr int kLooks = 10;
    std::unique_lock const lock(mutex_, std::try_to_lock);
    auto state = ncclSuccess;
    if (!lock.owns_lock() || calls_.comm == nullptr ||
        ncclCommGetAsyncError(calls_.comm, &state) != ncclSuccess || state == ncclSuccess ||
        ++looks_with_error_ < kLooks) {
      return;
    }
    peers_->lose(peers_->rank(), failure_text("a collective: " + text_of(state, calls_.comm)));
  }

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  /// Allocates memory, and registers it with that of the other ranks. Throws std::runtime_error,
  /// and fails, if NCCL fails.
  [[nodiscard]] NcclWindow registered(std::size_t bytes) {
    std::lock_guard const guard(mutex_);
    peers_->rethrow_failure(nullptr);
    if (calls_.comm == nullptr) {
      throw std::runtime_error(failure_text("the communicator has ended"));
    }
    runtime_->make_current();
    void* memory = nullptr;
    ncclWindow_t handle = nullptr;
    called_at_.store(std::chrono::steady_clock::now());
    auto result = ncclMemAlloc(&memory, bytes);
    if (result == ncclSuccess) {
      result = ncclCommWindowRegister(calls_.comm, memory, bytes, &handle, NCCL_WIN_COLL_SYMMETRIC);
    }
    called_at_.store(kNever);
    if (result != ncclSuccess) {
      auto const why = failure_text("symmetric_tensor(): " + text_of(result, calls_.comm));
      if (memory != nullptr) {
        static_cast<void>(ncclMemFree(memory));
      }
      peers_->rethrow_failure(nullptr);  // NCCL's may be a consequence
      peers_->lose(peers_->rank(), why);
      throw std::runtime_error(why);
    }
    return {.memory = static_cast<std::byte*>(memory),
            .bytes = bytes,
            .handle = handle,
            .number = windows_.next_number(),
            .of_ranks = {}};
  }

  /// Returns the addresses of the memory of all ranks, if they are threads of this process and each
  /// one's GPU reaches the others' memory; otherwise nothing, on all ranks. All ranks call it.
  [[nodiscard]] std::vector<std::byte*> addresses_of_ranks(void* own) {
    if (!are_in_one_process_ || peers_->size() > ops::kernels::kMostPushRanks) {
      return {};
    }
    bool reaches_all = true;
    std::vector<std::byte*> addresses;
    for (auto const& text : peers_->exchange(
             fmt::format("{} {}", reinterpret_cast<std::uintptr_t>(own), runtime_->ordinal()))) {
      std::istringstream words(text);
      std::uintptr_t address = 0;
      int ordinal = 0;
      words >> address >> ordinal;
      int reaches = ordinal == runtime_->ordinal() ? 1 : 0;
      if (reaches == 0 &&
          cudaDeviceCanAccessPeer(&reaches, runtime_->ordinal(), ordinal) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());  // which the next launch would report
        reaches = 0;
      }
      reaches_all = reaches_all && reaches != 0;
      addresses.push_back(reinterpret_cast<std::byte*>(address));
    }
    auto const answers = peers_->exchange(reaches_all ? "reaches all" : "");
    bool const all_reach = std::ranges::none_of(answers, &std::string::empty);
    return all_reach ? addresses : std::vector<std::byte*>();
  }

  /// Frees memory that no collective uses. A communicator that ends forgets its registrations.
  void release(void* memory, ncclWindow_t handle) noexcept {
    if (home_.is_left()) {
      return;
    }
    try {
      std::lock_guard const guard(mutex_);
      windows_.remove(static_cast<std::byte*>(memory));
      runtime_->make_current();
      if (calls_.comm != nullptr) {
        static_cast<void>(ncclCommWindowDeregister(calls_.comm, handle));
      }
      static_cast<void>(ncclMemFree(memory));
    } catch (...) {  // NOLINT(bugprone-empty-catch): the GPU is not usable any more
    }
  }
#endif

  /// Ends the collectives in flight, and the communicator. Calls nothing of CUDA before the
  /// collectives have been told to end.
  void abort() noexcept {
    // A call of NCCL that has the lock may itself wait until the collectives in flight end.
    constexpr auto kForCalls = std::chrono::milliseconds(500);
    std::unique_lock const lock(mutex_, kForCalls);
    end_by([](ncclComm_t comm) { static_cast<void>(ncclCommAbort(comm)); });
  }

  /// Frees the communicator, whose collectives are complete.
  void end() noexcept {
    std::lock_guard const guard(mutex_);
    end_by([runtime = runtime_](ncclComm_t comm) {
      runtime->make_current();
      if (ncclCommFinalize(comm) == ncclSuccess) {
        static_cast<void>(ncclCommDestroy(comm));
      }
    });
  }

  /// Ends the communicator by a function, if it has not ended. NCCL frees it when no captured graph
  /// has its collectives, for which a thread waits if need be.
  template <class Function>
  void end_by(Function function) noexcept {
    constexpr auto kForGraphs = std::chrono::seconds(1);
    auto* const comm = std::exchange(calls_.comm, nullptr);
    if (comm == nullptr || home_.is_left()) {
      return;
    }
    try {
      static_cast<void>(ends_within(kForGraphs, [comm, function] { function(comm); }));
    } catch (...) {  // NOLINT(bugprone-empty-catch): without a thread, NCCL keeps the communicator
    }
  }

  [[nodiscard]] std::string failure_text(std::string const& what) const {
    return fmt::format("communicator '{}', rank {} of {}: {}",
                       peers_->name(),
                       peers_->rank(),
                       peers_->size(),
                       what);
  }

  std::shared_ptr<msstream::detail::Backend> runtime_;
  bool are_in_one_process_;
  msstream::detail::HomeProcess home_{RuntimeLife::driver};
  std::timed_mutex mutex_;
  NcclCalls calls_;  ///< with a communicator until it has ended
  NcclWindows windows_;
  /// When the call of NCCL that is in progress began.
  std::atomic<std::chrono::steady_clock::time_point> called_at_{kNever};
  int looks_with_error_ = 0;
};

}  // namespace

bool has_nccl() noexcept {
  return true;
}

std::shared_ptr<Transport> make_nccl(std::shared_ptr<msstream::detail::Backend> runtime,
                                     std::shared_ptr<Peers> peers,
                                     CommunicatorSettings const& settings,
                                     bool are_in_one_process) {
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
  msstream::detail::require(!settings.copy_engines,
                            "communicator '{}': copy_engines needs NCCL 2.28; the build has {}.{}",
                            settings.name,
                            NCCL_MAJOR,
                            NCCL_MINOR);
#endif
  return std::make_shared<Nccl>(std::move(runtime), std::move(peers), settings, are_in_one_process);
}

}  // namespace msstream::comm::detail

#else

namespace msstream::comm::detail {

bool has_nccl() noexcept {
  return false;
}

std::shared_ptr<Transport> make_nccl(std::shared_ptr<msstream::detail::Backend> /*runtime*/,
                                     std::shared_ptr<Peers> /*peers*/,
                                     CommunicatorSettings const& /*settings*/,
                                     bool /*are_in_one_process*/) {
  throw std::logic_error("this build has no NCCL");
}

}  // namespace msstream::comm::detail

#endif
