// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl.hpp"
#include "comm/nccl_types_cuda.hpp"
#include "comm/peers.hpp"
#include "comm/peers_transport.hpp"
#include "comm/timeout.hpp"

#include <stdexcept>

#if MSSTREAM_NCCL

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
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

/// A stream and an event.
struct Lane {
  explicit Lane(msstream::detail::Backend& of)
      : runtime(of), stream(of.create_stream(StreamPriority::normal, {})) {
    try {
      event = of.create_event(EventTiming::untimed);
    } catch (...) {
      of.destroy_stream(stream);
      throw;
    }
  }
  ~Lane() {
    runtime.destroy_event(event);
    runtime.destroy_stream(stream);
  }
  Lane(Lane const&) = delete;
  Lane& operator=(Lane const&) = delete;

  msstream::detail::Backend& runtime;
  NativeStream stream;
  msstream::detail::NativeEvent event = nullptr;
};

/// Collectives between GPUs by NCCL.
///
/// States: sound until the first failure of its peers, then `aborted_` once the thread that watches
/// it has noticed. A failed communicator puts nothing on streams. Memory ordering: `mutex_`
/// protects `comm_` against its end while NCCL is called.
class Nccl final : public PeersTransport<Peers> {
 public:
  Nccl(std::shared_ptr<msstream::detail::Backend> runtime,
       std::shared_ptr<Peers> peers,
       std::chrono::nanoseconds timeout)
      : PeersTransport(std::move(peers), timeout), runtime_(std::move(runtime)) {
    runtime_->make_current();
    scratch_ = runtime_->allocate_device(scratch_bytes());
    try {
      auto const deadline = deadline_after(timeout_) + kForConnections;
      connect(deadline);
      connect_gpus(deadline);
    } catch (std::exception const& error) {
      abort();
      runtime_->free_device(scratch_, scratch_bytes());
      if (!peers_->has_failed()) {
        peers_->lose(peers_->rank(), error.what());
      }
      throw;
    }
  }
  ~Nccl() override {
    if (!home_.is_left()) {
      abort();
      runtime_->free_device(scratch_, scratch_bytes());
    }
  }

  void put(NativeStream stream,
           Part const& part,
           std::shared_ptr<Transport> const& /*self*/) override {
    std::lock_guard const guard(mutex_);
    peers_->announce(part);
    bool const is_empty = part.what.count == 0 && part.what.capacity == 0 &&
                          part.what.kind != CollectiveKind::barrier && part.counts == nullptr;
    if (comm_ == nullptr || is_empty || peers_->has_failed()) {
      return;
    }
    runtime_->make_current();
    ncclResult_t result = ncclSuccess;
    {
      std::lock_guard const on_gpu(lock_of_gpu(runtime_->ordinal()));
      result = enqueue(static_cast<cudaStream_t>(stream), part);
    }
    if (result == ncclInProgress) {  // more connections between the GPUs are made
      result = settled(deadline_after(timeout_), [] {});
      if (result == ncclInProgress && !peers_->has_failed()) {
        peers_->time_out(timeout_);
      }
    }
    if (result != ncclSuccess && !peers_->has_failed()) {
      auto const why = failure_text(to_string(part), result);
      is_told_by_exception_.store(true);
      peers_->lose(peers_->rank(), why);
      throw std::runtime_error(why);
    }
  }

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
      if (is_in_flight && stalled >= timeout_ && !peers_->has_failed()) {
        peers_->time_out(timeout_);
      }
    } catch (...) {  // NOLINT(bugprone-empty-catch): the next call looks again
    }
    end_if_failed();
  }

 private:
  /// How long NCCL may need for connections when all ranks have come.
  static constexpr auto kForConnections = std::chrono::seconds(60);

  /// Two elements of a byte for each rank.
  [[nodiscard]] std::size_t scratch_bytes() const {
    return 2 * static_cast<std::size_t>(peers_->size());
  }

  void connect(std::chrono::steady_clock::time_point deadline) {
    ncclUniqueId id{};
    std::string text;
    if (peers_->rank() == 0) {
      if (auto const result = ncclGetUniqueId(&id); result != ncclSuccess) {
        throw std::runtime_error(failure_text("ncclGetUniqueId", result));
      }
      text.assign(id.internal, sizeof(id.internal));
    }
    text = peers_->share(text);
    std::memcpy(id.internal, text.data(), std::min(text.size(), sizeof(id.internal)));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    auto result = ncclCommInitRankConfig(&comm_, peers_->size(), id, peers_->rank(), &config);
    if (result == ncclInProgress || result == ncclSuccess) {
      result = settled_or_failed(deadline);
    }
    if (result == ncclSuccess) {
      return;
    }
    peers_->rethrow_failure(nullptr);
    throw std::runtime_error(
        failure_text("ncclCommInitRankConfig", result) +
        "; expected a GPU of its own for each rank (comm::device_of()), and ranks that all came");
  }

  /// Runs a collective of each kind. NCCL connects the GPUs at the first one of a kind, during
  /// which the host waits for the other ranks: later collectives must not.
  void connect_gpus(std::chrono::steady_clock::time_point deadline) {
    auto const ranks = peers_->size();
    Lane const lane(*runtime_);
    auto* const received = static_cast<std::byte*>(scratch_) + ranks;
    auto const part = [&](CollectiveKind kind) {
      return Part{.what = {.kind = kind, .count = kind == CollectiveKind::all_to_all ? ranks : 1},
                  .input = scratch_,
                  .output = received};
    };
    for (auto const kind : {CollectiveKind::all_reduce,
                            CollectiveKind::reduce_scatter,
                            CollectiveKind::all_gather,
                            CollectiveKind::broadcast,
                            CollectiveKind::all_to_all}) {
      auto result = enqueue(static_cast<cudaStream_t>(lane.stream), part(kind));
      if (result == ncclInProgress) {
        result = settled_or_failed(deadline);
      }
      if (result != ncclSuccess) {
        peers_->rethrow_failure(nullptr);
        throw std::runtime_error(failure_text(name_of(kind), result));
      }
    }
    runtime_->record(lane.event, lane.stream);
    while (!runtime_->query(lane.event)) {
      peers_->look(true);
      peers_->rethrow_failure(nullptr);
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error(failure_text("the first collectives", ncclInProgress));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  [[nodiscard]] ncclResult_t enqueue(cudaStream_t stream, Part const& part) {
    auto const& what = part.what;
    auto const count = static_cast<std::size_t>(what.count);
    auto const type = type_of(what.dtype);
    switch (what.kind) {
      case CollectiveKind::all_reduce:
        return ncclAllReduce(
            part.input, part.output, count, type, operation_of(what.reduction), comm_, stream);
      case CollectiveKind::reduce_scatter:
        return ncclReduceScatter(
            part.input, part.output, count, type, operation_of(what.reduction), comm_, stream);
      case CollectiveKind::all_gather:
        return ncclAllGather(part.input, part.output, count, type, comm_, stream);
      case CollectiveKind::all_to_all:
        return exchange(stream, part.input, part.output, count, type);
      case CollectiveKind::all_to_all_counted:
        return exchange_counted(stream, part);
      case CollectiveKind::broadcast: {
        bool const is_root = what.peer == peers_->rank();
        return ncclBroadcast(is_root ? part.input : part.output,
                             is_root ? const_cast<void*>(part.input) : part.output,
                             count,
                             type,
                             what.peer,
                             comm_,
                             stream);
      }
      case CollectiveKind::send:
        return ncclSend(part.input, count, type, what.peer, comm_, stream);
      case CollectiveKind::receive:
        return ncclRecv(part.output, count, type, what.peer, comm_, stream);
      case CollectiveKind::barrier:
        break;
    }
    return ncclAllReduce(scratch_, scratch_, 1, ncclUint8, ncclMax, comm_, stream);
  }

  /// Exchanges equal parts of two tensors of `count` elements.
  [[nodiscard]] ncclResult_t exchange(cudaStream_t stream,
                                      void const* input,
                                      void* output,
                                      std::size_t count,
                                      ncclDataType_t type) {
    auto const ranks = static_cast<std::size_t>(peers_->size());
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    return ncclAlltoAll(input, output, count / ranks, type, comm_, stream);
#else
    return in_a_group([&] {
      return exchange_by_pairs(stream, input, output, count / ranks, bytes_of_type(type), type);
    });
#endif
  }

  /// Exchanges the counts, and the rows up to the capacity: NCCL takes counts from the host alone.
  [[nodiscard]] ncclResult_t exchange_counted(cudaStream_t stream, Part const& part) {
    auto const ranks = static_cast<std::size_t>(peers_->size());
    return in_a_group([&] {
      auto const result = exchange_by_pairs(stream,
                                            part.input,
                                            part.output,
                                            static_cast<std::size_t>(part.what.count) / ranks,
                                            bytes_of(part.what.dtype),
                                            type_of(part.what.dtype));
      return worse_of(result,
                      exchange_by_pairs(
                          stream, part.counts, part.received, 1, sizeof(*part.counts), ncclInt64));
    });
  }

  /// Sends the part of `count` elements of each rank, and receives its. To be called in a group.
  [[nodiscard]] ncclResult_t exchange_by_pairs(cudaStream_t stream,
                                               void const* input,
                                               void* output,
                                               std::size_t count,
                                               std::size_t element_bytes,
                                               ncclDataType_t type) {
    auto result = ncclSuccess;
    for (int other = 0; other < peers_->size(); ++other) {
      auto const at = static_cast<std::size_t>(other) * count * element_bytes;
      result = worse_of(
          result,
          ncclSend(static_cast<std::byte const*>(input) + at, count, type, other, comm_, stream));
      result = worse_of(
          result,
          ncclRecv(static_cast<std::byte*>(output) + at, count, type, other, comm_, stream));
    }
    return result;
  }

  template <class Calls>
  [[nodiscard]] static ncclResult_t in_a_group(Calls const& calls) {
    auto result = ncclGroupStart();
    if (result == ncclSuccess) {
      result = calls();
      result = worse_of(result, ncclGroupEnd());
    }
    return result;
  }
  /// Returns the first of two results that is a failure, otherwise ncclInProgress if one is.
  [[nodiscard]] static ncclResult_t worse_of(ncclResult_t a, ncclResult_t b) {
    auto const is_failure = [](ncclResult_t result) {
      return result != ncclSuccess && result != ncclInProgress;
    };
    return is_failure(a) ? a : is_failure(b) ? b : a == ncclInProgress ? a : b;
  }

  /// Waits for the call in progress. Returns its result, or ncclInProgress if it has none at the
  /// deadline, or when the peers fail. Calls `look()` now and then. The caller holds `mutex_`, or
  /// has not shared the object.
  template <class Look>
  [[nodiscard]] ncclResult_t settled(std::chrono::steady_clock::time_point deadline,
                                     Look const& look) {
    // NCCL enqueues a small collective on a thread of its own within some 10 µs; a sleep of any
    // length would last longer.
    constexpr auto kForEnqueueing = std::chrono::milliseconds(1);
    auto const sleeps_from = std::chrono::steady_clock::now() + kForEnqueueing;
    auto state = ncclInProgress;
    for (;;) {
      if (auto const result = ncclCommGetAsyncError(comm_, &state); result != ncclSuccess) {
        return result;
      }
      auto const now = std::chrono::steady_clock::now();
      if (state != ncclInProgress || peers_->has_failed() || now > deadline) {
        return state;
      }
      if (now < sleeps_from) {
        std::this_thread::yield();
        continue;
      }
      look();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  /// Waits as settled() does, before a thread watches the peers.
  [[nodiscard]] ncclResult_t settled_or_failed(std::chrono::steady_clock::time_point deadline) {
    return settled(deadline, [this] { peers_->look(true); });
  }

  /// Fails if NCCL has noticed an error, such as the loss of a rank. First gives the ranks time to
  /// tell what has happened: NCCL does not know.
  void look_for_errors() {
    constexpr int kLooks = 10;
    std::unique_lock const lock(mutex_, std::try_to_lock);
    auto state = ncclSuccess;
    if (!lock.owns_lock() || comm_ == nullptr ||
        ncclCommGetAsyncError(comm_, &state) != ncclSuccess || state == ncclSuccess ||
        state == ncclInProgress || ++looks_with_error_ < kLooks) {
      return;
    }
    peers_->lose(peers_->rank(), failure_text("a collective", state));
  }

  /// Ends the collectives in flight, and the communicator. NCCL frees it when no captured graph
  /// has its collectives. Calls nothing of CUDA before the collectives have been told to end.
  void abort() noexcept {
    // A call of NCCL that has the lock may itself wait until the collectives in flight end.
    constexpr auto kForCalls = std::chrono::milliseconds(500);
    std::unique_lock const lock(mutex_, kForCalls);
    if (auto* const comm = std::exchange(comm_, nullptr); comm != nullptr && !home_.is_left()) {
      static_cast<void>(ncclCommAbort(comm));
    }
  }

  /// Frees the communicator, whose collectives are complete. If a captured graph has its
  /// collectives, NCCL cannot free it before the graph, so that it stays.
  void end() noexcept {
    constexpr auto kForGraphs = std::chrono::seconds(1);
    std::lock_guard const guard(mutex_);
    auto const comm = std::exchange(comm_, nullptr);
    if (comm == nullptr) {
      return;
    }
    runtime_->make_current();
    auto state = ncclCommFinalize(comm);
    auto const deadline = std::chrono::steady_clock::now() + kForGraphs;
    while (state == ncclInProgress && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      static_cast<void>(ncclCommGetAsyncError(comm, &state));
    }
    if (state == ncclSuccess) {
      static_cast<void>(ncclCommDestroy(comm));
    }
  }

  [[nodiscard]] std::string failure_text(std::string const& what, ncclResult_t result) {
    auto const* const last = ncclGetLastError(comm_);
    return fmt::format("communicator '{}', rank {} of {}: {}: NCCL: {}{}{}",
                       peers_->name(),
                       peers_->rank(),
                       peers_->size(),
                       what,
                       ncclGetErrorString(result),
                       last != nullptr && *last != '\0' ? ": " : "",
                       last != nullptr ? last : "");
  }

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
  [[nodiscard]] static std::size_t bytes_of_type(ncclDataType_t type) {
    return type == ncclUint8                             ? 1
           : type == ncclFloat16 || type == ncclBfloat16 ? 2
           : type == ncclInt64                           ? 8
                                                         : 4;
  }
#endif

  std::shared_ptr<msstream::detail::Backend> runtime_;
  /// The elements of collectives without tensors. Their values do not matter.
  void* scratch_ = nullptr;
  msstream::detail::HomeProcess home_{RuntimeLife::driver};
  std::timed_mutex mutex_;
  ncclComm_t comm_ = nullptr;  ///< null once it has ended
  int looks_with_error_ = 0;
};

}  // namespace

bool has_nccl() noexcept {
  return true;
}

std::shared_ptr<Transport> make_nccl(std::shared_ptr<msstream::detail::Backend> runtime,
                                     std::shared_ptr<Peers> peers,
                                     std::chrono::nanoseconds timeout) {
  return std::make_shared<Nccl>(std::move(runtime), std::move(peers), timeout);
}

}  // namespace msstream::comm::detail

#else

namespace msstream::comm::detail {

bool has_nccl() noexcept {
  return false;
}

std::shared_ptr<Transport> make_nccl(std::shared_ptr<msstream::detail::Backend> /*runtime*/,
                                     std::shared_ptr<Peers> /*peers*/,
                                     std::chrono::nanoseconds /*timeout*/) {
  throw std::logic_error("this build has no NCCL");
}

}  // namespace msstream::comm::detail

#endif
