// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// A CUDA runtime for a machine without CUDA. It counts every call, and keeps CUDA's semantics of
/// the order of work, handles and memory. Kernels are counted and compute nothing.
///
/// The program links it in place of libcudart and libcublasLt. Streams run their copies, fills and
/// host functions in order and as late as possible: when the host waits, or when it queries while
/// the device is not busy. A missing wait therefore shows in the data. Thread-safe.
namespace fake_cuda {

/// The number of calls of each function of the CUDA API, by name; functions that were not called
/// are absent. Calls that the compiler adds around a launch (registration, the stack of
/// configurations) are not counted.
class Counts {
 public:
  [[nodiscard]] std::uint64_t operator[](std::string_view call) const;
  [[nodiscard]] std::map<std::string, std::uint64_t, std::less<>> const& calls() const noexcept {
    return calls_;
  }
  void add(std::string_view call);
  /// Returns the calls made since `before`.
  [[nodiscard]] Counts since(Counts const& before) const;

 private:
  std::map<std::string, std::uint64_t, std::less<>> calls_;
};

/// Returns the calls made since the program began.
[[nodiscard]] Counts counts();

/// Runs `work`, and returns the calls that it made.
template <class Work>
[[nodiscard]] Counts calls_of(Work&& work) {
  Counts const before = counts();
  work();
  return counts().since(before);
}

/// The numbers of objects that were created and not yet destroyed.
struct Live {
  std::uint64_t streams = 0;
  std::uint64_t events = 0;
  std::uint64_t device_allocations = 0;
  std::uint64_t pinned_allocations = 0;
  std::uint64_t pages = 0;
  std::uint64_t graphs = 0;

  friend bool operator==(Live const&, Live const&) = default;
};
std::ostream& operator<<(std::ostream& out, Live const& live);
[[nodiscard]] Live live();
/// Returns the number of cuBLASLt handles. The library keeps them for later groups, so a test need
/// not destroy them.
[[nodiscard]] std::uint64_t blas_handles();

/// Returns the breaches of CUDA's rules since the last call, one sentence each: uses of handles and
/// memory that do not exist, or no longer (handles are never reused), copies of pageable memory,
/// calls from inside a host function. The calls also fail where CUDA's would.
[[nodiscard]] std::vector<std::string> take_misuses();

/// While the guard lives, the device makes no progress unless the host waits: queries return
/// cudaErrorNotReady until the host has waited for the work. One guard at a time.
class BusyDevice {
 public:
  BusyDevice();
  ~BusyDevice();
  BusyDevice(BusyDevice const&) = delete;
  BusyDevice& operator=(BusyDevice const&) = delete;
};

/// While the guard lives, the `nth` call of this name from now on fails once, with
/// cudaErrorLaunchFailure, and has no effect. One guard at a time.
class FailingCall {
 public:
  FailingCall(std::string_view name, std::uint64_t nth);
  ~FailingCall();
  FailingCall(FailingCall const&) = delete;
  FailingCall& operator=(FailingCall const&) = delete;
};

}  // namespace fake_cuda
