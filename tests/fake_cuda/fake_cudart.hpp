// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// A fake CUDA runtime for machines without CUDA. It counts every call, and implements CUDA's rules
/// for the order of work, for handles and for memory. Kernels are counted and compute nothing.
///
/// Test programs link it in place of libcudart and libcublasLt. Streams run their copies, fills and
/// host functions in order and as late as possible: when the host waits, or when it queries while
/// the device is not busy. A missing wait therefore leads to wrong data. Thread-safe.
namespace fake_cuda {

/// The number of calls of each CUDA function, by name. A function that was not called is absent.
/// Calls that the compiler generates around a kernel launch (registration, the stack of launch
/// configurations) are not counted.
class Counts {
 public:
  [[nodiscard]] std::uint64_t operator[](std::string_view call) const;
  [[nodiscard]] std::map<std::string, std::uint64_t, std::less<>> const& calls() const noexcept {
    return calls_;
  }
  void add(std::string_view call);
  /// Returns the counts minus the counts `before`.
  [[nodiscard]] Counts since(Counts const& before) const;

 private:
  std::map<std::string, std::uint64_t, std::less<>> calls_;
};

/// Returns the counts of all calls since the program began.
[[nodiscard]] Counts counts();

/// Runs `work`, and returns the calls that it made.
template <class Work>
[[nodiscard]] Counts calls_of(Work&& work) {
  Counts const before = counts();
  work();
  return counts().since(before);
}

/// The number of CUDA objects of each kind that exist.
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
/// Returns the number of existing cuBLASLt handles. The library keeps the handles for later groups,
/// so they are not leaks.
[[nodiscard]] std::uint64_t blas_handles();

/// Returns the violations of CUDA's rules since the last call, one sentence each: uses of handles
/// or memory that do not exist (handles are never reused), asynchronous copies of pageable memory,
/// and CUDA calls from host functions. The offending calls also fail where they would fail in CUDA.
[[nodiscard]] std::vector<std::string> take_misuses();

/// A guard. While it lives, the fake device makes no progress unless the host waits: queries return
/// cudaErrorNotReady until the host has waited for the work. Only one guard may exist.
class BusyDevice {
 public:
  BusyDevice();
  ~BusyDevice();
  BusyDevice(BusyDevice const&) = delete;
  BusyDevice& operator=(BusyDevice const&) = delete;
};

/// A guard. While it lives, the `nth` call of the named CUDA function from now on fails once, with
/// cudaErrorLaunchFailure, and has no effect. Only one guard may exist.
class FailingCall {
 public:
  FailingCall(std::string_view name, std::uint64_t nth);
  ~FailingCall();
  FailingCall(FailingCall const&) = delete;
  FailingCall& operator=(FailingCall const&) = delete;
};

/// A guard. While it lives, the driver supports the CUDA `version`, such as 12020 for 12.2, and
/// with 0 there is no driver. Only one guard may exist.
class DriverVersion {
 public:
  explicit DriverVersion(int version);
  ~DriverVersion();
  DriverVersion(DriverVersion const&) = delete;
  DriverVersion& operator=(DriverVersion const&) = delete;
};

}  // namespace fake_cuda
