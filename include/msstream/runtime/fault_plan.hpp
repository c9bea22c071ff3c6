// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// The runtime calls that may fail. launch: the beginning of an operation's work.
enum class RuntimeCall : std::uint8_t {
  create_stream,
  synchronize_stream,
  create_event,
  record,
  wait,
  query,
  synchronize,
  elapsed_ns,
  allocate_device,
  allocate_pinned,
  reserve_addresses,
  map_pages,
  move_pages,
  memory_info,
  copy,
  fill,
  call_host,
  create_libraries,
  begin_capture,
  end_capture,
  launch_graph,
  launch
};

/// What a call fails with.
enum class Fault : std::uint8_t {
  out_of_memory,   ///< OutOfMemory from allocations, CudaError 2 from others; once
  launch_failure,  ///< CudaError 719; once
  sticky           ///< CudaError 700, and so does every later call: the device is lost
};

[[nodiscard]] std::string_view name_of(RuntimeCall call) noexcept;
[[nodiscard]] std::string_view name_of(Fault fault) noexcept;

/// Which call of a Faulty runtime fails, and which calls there were. Shared by the runtime and the
/// test; thread-safe.
class FaultPlan {
 public:
  /// One call: the `number`-th since the plan was last told what to fail.
  struct Call {
    std::uint64_t number;
    RuntimeCall kind;
    std::string operation;  ///< whose work the call is part of; empty outside of all

    [[nodiscard]] std::string describe() const;
  };

  /// Lets the `number`-th call from now on fail, counted from 1 over all threads.
  void fail(std::uint64_t number, Fault fault);
  /// Lets the `number`-th call of one kind fail.
  void fail(RuntimeCall kind, std::uint64_t number, Fault fault);
  /// Nothing fails any more; counting starts again. Also mends a device that is lost.
  void reset();

  /// The calls since fail() or reset().
  [[nodiscard]] std::vector<Call> calls() const;
  [[nodiscard]] std::uint64_t call_count() const;
  /// The call that failed, the first one where the fault is sticky.
  [[nodiscard]] std::optional<Call> failed() const;
  /// Whether a sticky fault has happened.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(); }

  /// For Faulty: counts a call, and tells what it must fail with.
  [[nodiscard]] std::optional<Fault> count(RuntimeCall kind, std::string_view operation);

 private:
  struct Target {
    std::optional<RuntimeCall> kind;
    std::uint64_t remaining;
    Fault fault;
  };

  void aim(std::optional<Target> target);

  mutable std::mutex mutex_;
  std::optional<Target> target_;
  std::vector<Call> calls_;
  std::optional<Call> failed_;
  std::atomic<bool> lost_{false};
};

namespace detail {

/// Throws what `fault` means for a call; `bytes` is what an allocation asked for.
[[noreturn]] void throw_fault(Fault fault, RuntimeCall call, std::size_t bytes);

}  // namespace detail
}  // namespace msstream
