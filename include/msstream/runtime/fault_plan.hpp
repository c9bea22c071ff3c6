// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// The runtime calls that can be made to fail. `launch` is the beginning of an operation's work.
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

/// The error with which a runtime call is made to fail.
enum class Fault : std::uint8_t {
  out_of_memory,   ///< OutOfMemory from allocations, CudaError 2 from other calls; once
  launch_failure,  ///< CudaError 719 from this call only
  sticky           ///< CudaError 700 from this and every later call: the device is lost
};

/// Returns the name of a call, such as "record", or of a fault.
[[nodiscard]] std::string_view name_of(RuntimeCall call) noexcept;
[[nodiscard]] std::string_view name_of(Fault fault) noexcept;

/// Selects the call of a Faulty runtime that fails, and records all calls. Shared by the runtime
/// and the test; thread-safe.
class FaultPlan {
 public:
  /// A recorded runtime call. `number` counts the calls since the last fail() or reset(), from 1.
  struct Call {
    std::uint64_t number;
    RuntimeCall kind;  ///< the function of the runtime
    /// The operation whose work makes the call; empty outside all operations.
    std::string operation;
  };

  /// Makes the `number`-th runtime call from now on fail, counted from 1 over all threads.
  void fail(std::uint64_t number, Fault fault);
  /// Makes the `number`-th runtime call of one kind from now on fail, counted from 1 over all
  /// threads.
  void fail(RuntimeCall kind, std::uint64_t number, Fault fault);
  /// Cancels the planned failure and restarts the counting of calls. A device that a sticky fault
  /// has made unusable works again.
  void reset();

  /// Returns the runtime calls since the last fail() or reset().
  [[nodiscard]] std::vector<Call> calls() const;
  /// Returns the number of calls since the last fail() or reset().
  [[nodiscard]] std::uint64_t call_count() const;
  /// Returns the runtime call that was made to fail, or the first one if the fault is sticky. Null
  /// if none has failed.
  [[nodiscard]] std::optional<Call> failed() const;
  /// Returns whether a sticky fault has happened.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(); }

  /// Counts a runtime call, and returns the fault with which the call must fail, if any. Called by
  /// Faulty.
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

/// Returns a text such as `call 3: fill of 'tower/fill'`.
[[nodiscard]] std::string to_string(FaultPlan::Call const& call);

namespace detail {

/// Throws the exception with which `call` fails by `fault`. `bytes` is the size that an allocation
/// requests.
[[noreturn]] void throw_fault(Fault fault, RuntimeCall call, std::size_t bytes);

}  // namespace detail
}  // namespace msstream
