// SPDX-License-Identifier: Apache-2.0
#if MSSTREAM_NCCL

#include "comm/nccl/nccl_connect_cuda.hpp"

#include "comm/nccl/nccl_ends_cuda.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

namespace msstream::comm::detail {
namespace {

using msstream::detail::Backend;
using msstream::detail::NativeStream;

/// A stream and an event.
struct Lane {
  explicit Lane(Backend& of) : runtime(of), stream(of.create_stream(StreamPriority::normal, {})) {
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

  Backend& runtime;
  NativeStream stream;
  msstream::detail::NativeEvent event = nullptr;
};

/// The state that a thread that connects shares with the thread that waits for it, which may give
/// up.
///
/// Ownership: whoever takes the communicator from `comm` ends it. Memory ordering: `failure` is
/// written before the thread's function returns.
struct Connecting {
  NcclCalls calls;
  ncclUniqueId id{};
  int most_sms = 0;
  bool copy_engines = false;
  std::shared_ptr<Backend> runtime;
  std::atomic<ncclComm_t> comm{nullptr};
  std::atomic<bool> is_given_up{false};
  std::string failure;

  /// Ends the communicator, if nobody else has.
  void abort() {
    if (auto* const made = comm.exchange(nullptr); made != nullptr) {
      static_cast<void>(ncclCommAbort(made));
    }
  }
};

/// Runs a collective of each kind, at which NCCL connects the GPUs.
void run_each_kind(Connecting& with) {
  Lane const lane(*with.runtime);
  auto* const received = with.calls.scratch + with.calls.size;
  for (auto const kind : {CollectiveKind::all_reduce,
                          CollectiveKind::reduce_scatter,
                          CollectiveKind::all_gather,
                          CollectiveKind::broadcast,
                          CollectiveKind::all_to_all}) {
    Part const part{
        .what = {.kind = kind, .count = kind == CollectiveKind::all_to_all ? with.calls.size : 1},
        .input = with.calls.scratch,
        .output = received};
    if (with.is_given_up.load()) {
      return;
    }
    auto const result = with.calls.put(static_cast<cudaStream_t>(lane.stream), part);
    if (result != ncclSuccess) {
      throw std::runtime_error(
          fmt::format("{}: {}", name_of(kind), text_of(result, with.calls.comm)));
    }
  }
  with.runtime->record(lane.event, lane.stream);
  while (!with.runtime->query(lane.event) && !with.is_given_up.load()) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void connect_on_this_thread(Connecting& with) {
  with.runtime->make_current();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  if (with.most_sms != 0) {
    // NCCL rounds the blocks of all-to-all up to a power of two.
    config.maxCTAs = static_cast<int>(std::bit_floor(static_cast<unsigned>(with.most_sms)));
  }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  if (with.copy_engines) {
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  }
#endif
  auto const result =
      ncclCommInitRankConfig(&with.calls.comm, with.calls.size, with.id, with.calls.rank, &config);
  if (result != ncclSuccess) {
    throw std::runtime_error(
        "ncclCommInitRankConfig: " + text_of(result, nullptr) +
        "; expected a GPU of its own for each rank (comm::device_of()), and ranks that all came");
  }
  with.comm.store(with.calls.comm);
  run_each_kind(with);
}

void connect_for(std::shared_ptr<Connecting> const& with) {
  try {
    connect_on_this_thread(*with);
  } catch (std::exception const& error) {
    with->failure = error.what();
  }
  if (with->is_given_up.load() || !with->failure.empty()) {
    with->abort();
  }
}

/// Returns the id that rank 0 makes. Throws std::runtime_error if the settings of rank 0 differ
/// from those of this rank.
[[nodiscard]] ncclUniqueId shared_id(Peers& peers, CommunicatorSettings const& settings) {
  ncclUniqueId id{};
  auto const own = fmt::format("most_sms of {}, copy_engines {}, peer_access {}",
                               settings.most_sms,
                               settings.copy_engines,
                               settings.peer_access);
  std::string text;
  if (peers.rank() == 0) {
    if (auto const result = ncclGetUniqueId(&id); result != ncclSuccess) {
      throw std::runtime_error("ncclGetUniqueId: " + text_of(result, nullptr));
    }
    text.assign(id.internal, sizeof(id.internal));
    text += own;
  }
  text = peers.share(text);
  std::memcpy(id.internal, text.data(), std::min(text.size(), sizeof(id.internal)));
  if (auto const first = text.substr(std::min(text.size(), sizeof(id.internal))); first != own) {
    throw std::runtime_error(fmt::format("{}; expected those of rank 0: {}", own, first));
  }
  return id;
}

}  // namespace

std::string text_of(ncclResult_t result, ncclComm_t comm) {
  auto const* const last = ncclGetLastError(comm);
  bool const says_more = last != nullptr && *last != '\0';
  return fmt::format(
      "NCCL: {}{}{}", ncclGetErrorString(result), says_more ? ": " : "", says_more ? last : "");
}

void connect(NcclCalls& calls,
             std::shared_ptr<Backend> const& runtime,
             Peers& peers,
             CommunicatorSettings const& settings,
             std::chrono::steady_clock::time_point deadline) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(1);
  constexpr auto kToGiveUp = std::chrono::milliseconds(500);
  auto const with = std::make_shared<Connecting>();
  with->calls = calls;
  with->id = shared_id(peers, settings);
  with->most_sms = settings.most_sms;
  with->copy_engines = settings.copy_engines;
  with->runtime = runtime;
  auto const done = call_alone([with] { connect_for(with); });
  bool is_late = false;
  while (done.wait_for(kBetweenLooks) != std::future_status::ready) {
    peers.look(true);
    is_late = std::chrono::steady_clock::now() > deadline;
    if (!is_late && !peers.has_failed()) {
      continue;
    }
    with->is_given_up.store(true);
    // NCCL must not be called while the communicator ends, unless its call does not return.
    if (done.wait_for(kToGiveUp) != std::future_status::ready) {
      try {
        static_cast<void>(ends_within(kToGiveUp, [with] { with->abort(); }));
      } catch (...) {  // NOLINT(bugprone-empty-catch): what the peers tell is worth more
      }
    }
    peers.rethrow_failure(nullptr);
    throw std::runtime_error("NCCL was not connected in time");
  }
  if (!with->failure.empty()) {
    peers.rethrow_failure(nullptr);
    throw std::runtime_error(with->failure);
  }
  calls.comm = with->comm.exchange(nullptr);
}

}  // namespace msstream::comm::detail

#endif
