// SPDX-License-Identifier: Apache-2.0
#include "comm/mail/mail_cuda.hpp"
#include "comm/nccl.hpp"
#include "comm/nccl/nccl_calls_cuda.hpp"
#include "comm/nccl/nccl_connect_cuda.hpp"
#include "comm/nccl/nccl_ends_cuda.hpp"
#include "comm/nccl/young_collectives.hpp"
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
  // In cache lines of their own, so that threads of different GPUs do not slow each other down.
  struct alignas(128) Lock {
    std::mutex mutex;
  };
  static std::array<Lock, 64> locks;
  return locks[static_cast<std::size_t>(ordinal) % locks.size()].mutex;
}

/// Collectives between GPUs: those that Mail serves by its kernels, the others by NCCL.
///
/// Ranks that are threads wait after a young collective until all have launched it. CUDA loads a
/// kernel as it is first launched, and then may wait for all work of the GPU while it keeps other
/// threads out. A collective that has begun on that GPU would wait for a rank that is kept out.
///
/// States: sound until the first failure of its peers, then aborted, once the thread that watches
/// it has noticed. A failed communicator puts nothing on streams. Memory ordering: `mutex_`
/// protects the communicator against its end while NCCL is called, unless the call does not return.
///
/// NCCL's communicator is one whose calls block: with others, NCCL starts a thread for each call,
/// and goes on after the last one while the process ends.
class Nccl final : public PeersTransport<Peers> {
 public:
  Nccl(std::shared_ptr<msstream::detail::Backend> runtime,
       std::shared_ptr<Peers> peers,
       CommunicatorSettings const& settings)
      : PeersTransport(std::move(peers), settings.timeout),
        runtime_(std::move(runtime)),
        lock_of_gpu_(lock_of_gpu(runtime_->ordinal())) {
    runtime_->make_current();
    owner_ = std::make_shared<NcclOwner>(runtime_, scratch_bytes());
    calls_ = {.rank = peers_->rank(), .size = peers_->size(), .scratch = owner_->scratch()};
    try {
      connect(calls_, runtime_, *peers_, settings, deadline_after(timeout_) + kForConnections);
      owner_->set(calls_.comm);
      mail_ = Mail::make(runtime_, *peers_, settings);
      owner_->set_mail(mail_);
    } catch (std::exception const& error) {
      owner_->abort();
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
    }
  }

  void put(NativeStream stream,
           Part const& issued,
           std::shared_ptr<Transport> const& /*self*/) override {
    launch(stream, issued);
    bool const is_of_all =
        issued.what.kind != CollectiveKind::send && issued.what.kind != CollectiveKind::receive;
    // Without the mutex, so that a failure can end the communicator meanwhile.
    if (is_of_all && !peers_->launched(young_.is(issued.what))) {
      young_.trust();
    }
  }

  std::shared_ptr<void const> share_with_graph() override {
    std::lock_guard const guard(mutex_);
    return owner_ != nullptr ? owner_->share_with_graph() : nullptr;
  }

  std::shared_ptr<void> symmetric_memory(
      std::size_t bytes, [[maybe_unused]] std::shared_ptr<Transport> const& self) override {
    if (bytes == 0) {
      return nullptr;
    }
    if (mail_ != nullptr) {
      try {
        return mail_->symmetric_memory(*peers_, bytes);
      } catch (NotMapped const& error) {
        throw std::runtime_error(fmt::format(
            "symmetric_tensor() of communicator '{}': {}", peers_->name(), error.what()));
      }
    }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    // All ranks have memory before any of them registers it: NCCL waits for all.
    auto* const memory = allocated(bytes);
    return {register_window(memory, bytes), [self, this](void* own) { release(own); }};
#else
    return nullptr;
#endif
  }

  [[nodiscard]] bool gains_by_symmetry(std::size_t bytes) const noexcept override {
    return mail_ != nullptr && mail_->limits().is_large(bytes);
  }

  void leave() noexcept override {
    try {
      notice_failures();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the ranks find it by themselves
    }
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
      notice_failures();
      if (!peers_->has_failed()) {
        look_for_errors();
      }
      // A call of NCCL that connects GPUs waits for the other ranks, too.
      bool const is_call_stalled = time_in_call() >= timeout_;
      if (((is_in_flight && stalled >= timeout_) || is_call_stalled) && !peers_->has_failed()) {
        peers_->time_out(timeout_);
      }
    } catch (...) {  // NOLINT(bugprone-empty-catch): the next call looks again
    }
    end_if_failed();
  }

 private:
  void launch(NativeStream stream, Part const& issued) {
    std::lock_guard const guard(mutex_);
    std::optional<Part> placed;
    Part const& part = has_windows() ? placed.emplace(with_places(issued)) : issued;
    peers_->announce(part);
    bool const is_empty = part.what.count == 0 && part.what.capacity == 0 &&
                          part.what.kind != CollectiveKind::barrier && part.counts == nullptr;
    if (has_ended() || is_empty || peers_->has_failed()) {
      return;
    }
    // The group that launches the collective has made the device current.
    if (mail_ != nullptr && mail_->limits().serves(part.what)) {
      try {
        mail_->put(stream, part);
      } catch (std::exception const& error) {
        fail_to_put(part, error.what());
      }
      return;
    }
    ncclResult_t result = ncclSuccess;
    {
      std::lock_guard const on_gpu(lock_of_gpu_);
      InCall const in_call(call_);
      result = calls_.put(static_cast<cudaStream_t>(stream), part);
    }
    if (result != ncclSuccess && !peers_->has_failed()) {
      fail_to_put(part, text_of(result, calls_.comm));
    }
  }
  /// Tells the other ranks that this one could not put its part on a stream, and throws.
  [[noreturn]] void fail_to_put(Part const& part, std::string const& error) {
    auto const why = failure_text(fmt::format("{}: {}", to_string(part), error));
    is_told_by_exception_.store(true);
    peers_->lose(peers_->rank(), why);
    throw std::runtime_error(why);
  }

  /// How long NCCL may need for connections when all ranks have come.
  static constexpr auto kForConnections = std::chrono::seconds(60);

  /// Two elements of a byte for each rank.
  [[nodiscard]] std::size_t scratch_bytes() const {
    return 2 * static_cast<std::size_t>(peers_->size());
  }

  /// Marks that a call of NCCL is in progress, by an odd number, for the thread that watches:
  /// reading the clock would make each call slower. The caller holds `mutex_`.
  class InCall {
   public:
    explicit InCall(std::atomic<std::uint64_t>& call) noexcept : call_(call) { count(); }
    ~InCall() { count(); }
    InCall(InCall const&) = delete;
    InCall& operator=(InCall const&) = delete;

   private:
    void count() noexcept {
      call_.store(call_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    std::atomic<std::uint64_t>& call_;
  };
  /// Returns for how long the watch has seen the same call of NCCL; 0 if none is in progress.
  /// Called by the watch alone.
  [[nodiscard]] std::chrono::nanoseconds time_in_call() {
    auto const call = call_.load(std::memory_order_acquire);
    auto const now = std::chrono::steady_clock::now();
    if (call % 2 == 0 || call != call_seen_) {
      call_seen_ = call;
      call_seen_at_ = now;
    }
    return now - call_seen_at_;
  }

  void notice_failures() override {
    auto const bad = mail_ == nullptr ? std::nullopt : mail_->bad_count();
    if (bad && !peers_->has_failed()) {
      peers_->lose(-1, *bad);
    }
  }
  /// Fails if NCCL has noticed an error, such as the loss of a rank. First gives the ranks time to
  /// tell what has happened: NCCL does not know.
  void look_for_errors() {
    constexpr int kLooks = 10;

    std::unique_lock const lock(mutex_, std::try_to_lock);
    auto state = ncclSuccess;
    if (!lock.owns_lock() || has_ended() || home_.is_left() ||
        ncclCommGetAsyncError(calls_.comm, &state) != ncclSuccess || state == ncclSuccess ||
        ++looks_with_error_ < kLooks) {
      return;
    }
    peers_->lose(peers_->rank(), failure_text("a collective: " + text_of(state, calls_.comm)));
  }

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  /// The memory of a symmetric tensor, registered with that of the other ranks.
  struct Window {
    std::byte* memory;
    std::size_t bytes;
    ncclWindow_t handle;
    std::int64_t number;  ///< in the communicator, the same on all ranks
  };

  /// Allocates memory of NCCL on all ranks. If it fails on one, frees it and throws
  /// std::runtime_error on all: the communicator stays usable.
  [[nodiscard]] void* allocated(std::size_t bytes) {
    runtime_->make_current();
    void* memory = nullptr;
    auto const result = ncclMemAlloc(&memory, bytes);
    std::vector<std::string> failures;
    try {
      failures = peers_->exchange(result == ncclSuccess ? "" : text_of(result, nullptr));
    } catch (...) {
      static_cast<void>(ncclMemFree(memory));
      throw;
    }
    for (std::size_t rank = 0; rank < failures.size(); ++rank) {
      if (!failures[rank].empty()) {
        static_cast<void>(ncclMemFree(memory));
        throw std::runtime_error(
            fmt::format("symmetric_tensor() of communicator '{}': {} bytes on "
                        "rank {}: {}",
                        peers_->name(),
                        bytes,
                        rank,
                        failures[rank]));
      }
    }
    return memory;
  }

  /// Registers memory with that of the other ranks, and returns it. If NCCL fails, frees it, throws
  /// and ends the communicator.
  [[nodiscard]] void* register_window(void* memory, std::size_t bytes) {
    std::lock_guard const guard(mutex_);
    ncclWindow_t handle = nullptr;
    auto result = ncclInvalidArgument;  // of a communicator that has failed meanwhile
    if (!has_ended()) {
      InCall const in_call(call_);
      result = ncclCommWindowRegister(calls_.comm, memory, bytes, &handle, NCCL_WIN_COLL_SYMMETRIC);
    }
    if (result != ncclSuccess) {
      auto const why = failure_text("symmetric_tensor(): " +
                                    text_of(result, has_ended() ? nullptr : calls_.comm));
      static_cast<void>(ncclMemFree(memory));
      peers_->rethrow_failure(nullptr);  // NCCL's may be a consequence
      peers_->lose(peers_->rank(), why);
      throw std::runtime_error(why);
    }
    windows_.push_back({static_cast<std::byte*>(memory), bytes, handle, windows_made_++});
    return memory;
  }

  /// Frees memory that no collective uses.
  void release(void* memory) noexcept {
    if (home_.is_left()) {
      return;
    }
    try {
      std::lock_guard const guard(mutex_);
      runtime_->make_current();
      auto const window = std::ranges::find(windows_, memory, &Window::memory);
      if (window != windows_.end()) {
        if (!has_ended()) {
          static_cast<void>(ncclCommWindowDeregister(calls_.comm, window->handle));
        }
        windows_.erase(window);
      }
      static_cast<void>(ncclMemFree(memory));
    } catch (...) {  // NOLINT(bugprone-empty-catch): the GPU is not usable any more
    }
  }
#endif

  [[nodiscard]] bool has_windows() const noexcept {
    if (mail_ != nullptr) {
      return mail_->has_symmetric_memory();
    }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    return !windows_.empty();
#else
    return false;
#endif
  }
  /// Returns a part whose agreement has the places of its tensors in symmetric memory: NCCL takes
  /// those of the other ranks to be equal.
  [[nodiscard]] Part with_places(Part part) const {
    if (!is_between_two(part.what)) {
      auto const own_part = static_cast<std::size_t>(peers_->rank()) * bytes_given(part.what, 1);
      bool const is_in_place =
          part.what.kind == CollectiveKind::broadcast ||
          (part.what.kind == CollectiveKind::all_gather &&
           part.input == static_cast<std::byte const*>(part.output) + own_part);
      part.what.output_place = place_of(part.output != nullptr ? part.output : part.input);
      if (mail_ == nullptr) {  // which reads inputs from any place
        part.what.input_place = is_in_place ? part.what.output_place : place_of(part.input);
      }
    }
    return part;
  }
  /// Returns the place of memory in that of a symmetric tensor, equal on ranks that pass the same
  /// part of it; -1 for other memory.
  [[nodiscard]] std::int64_t place_of(void const* memory) const {
    if (mail_ != nullptr) {
      return mail_->place_of(memory);
    }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    auto const* const at = static_cast<std::byte const*>(memory);
    for (auto const& window : windows_) {
      if (at >= window.memory && at < window.memory + window.bytes) {
        return (window.number << 40U) + (at - window.memory);
      }
    }
#endif
    return -1;
  }

  /// Whether there is no communicator to call NCCL with. The caller holds `mutex_`.
  [[nodiscard]] bool has_ended() const noexcept {
    return calls_.comm == nullptr || is_aborted_.load();
  }

  /// Ends the collectives in flight, and the communicator. Calls nothing of CUDA before the
  /// collectives have been told to end.
  void abort() noexcept {
    // A call of NCCL that has the lock may itself wait until the collectives in flight end. What it
    // uses stays then.
    constexpr auto kForCalls = std::chrono::milliseconds(500);
    if (mail_ != nullptr) {
      mail_->stop();
    }
    std::unique_lock const lock(mutex_, kForCalls);
    if (!is_aborted_.exchange(true) && owner_ != nullptr) {
      owner_->abort();
    }
  }

  /// Gives up the communicator, whose collectives are complete. It ends when no captured graph has
  /// any.
  void end() noexcept {
    std::lock_guard const guard(mutex_);
    calls_.comm = nullptr;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    // Windows keep the memory of tensors that outlive the communicator.
    std::vector<ncclWindow_t> handles;
    for (auto const& window : std::exchange(windows_, {})) {
      handles.push_back(window.handle);
    }
    owner_->keep(std::move(handles));
#endif
    owner_.reset();
  }

  [[nodiscard]] std::string failure_text(std::string const& what) const {
    return fmt::format("communicator '{}', rank {} of {}: {}",
                       peers_->name(),
                       peers_->rank(),
                       peers_->size(),
                       what);
  }

  std::shared_ptr<msstream::detail::Backend> runtime_;
  std::mutex& lock_of_gpu_;
  YoungCollectives young_;
  msstream::detail::HomeProcess home_{RuntimeLife::driver};
  std::timed_mutex mutex_;
  std::shared_ptr<NcclOwner> owner_;  ///< null once this rank has left
  std::shared_ptr<Mail> mail_;        ///< null if the GPUs do not reach each other's memory
  NcclCalls calls_;                   ///< with a communicator until this rank has left
  std::atomic<bool> is_aborted_{false};
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  std::vector<Window> windows_;  ///< those of a communicator that this rank has not left
  std::int64_t windows_made_ = 0;
#endif
  std::atomic<std::uint64_t> call_{0};  ///< see InCall
  // Used by the watch alone.
  std::uint64_t call_seen_ = 0;
  std::chrono::steady_clock::time_point call_seen_at_;
  int looks_with_error_ = 0;
};

}  // namespace

bool has_nccl() noexcept {
  return true;
}

std::shared_ptr<Transport> make_nccl(std::shared_ptr<msstream::detail::Backend> runtime,
                                     std::shared_ptr<Peers> peers,
                                     CommunicatorSettings const& settings) {
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
  msstream::require(!settings.copy_engines || settings.peer_access,
                    "communicator '{}': copy_engines needs NCCL 2.28; the build has {}.{}",
                    settings.name,
                    NCCL_MAJOR,
                    NCCL_MINOR);
#endif
  return std::make_shared<Nccl>(std::move(runtime), std::move(peers), settings);
}

}  // namespace msstream::comm::detail

#else

namespace msstream::comm::detail {

bool has_nccl() noexcept {
  return false;
}

std::shared_ptr<Transport> make_nccl(std::shared_ptr<msstream::detail::Backend> /*runtime*/,
                                     std::shared_ptr<Peers> /*peers*/,
                                     CommunicatorSettings const& /*settings*/) {
  throw std::logic_error("this build has no NCCL");
}

}  // namespace msstream::comm::detail

#endif
