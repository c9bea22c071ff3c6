// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// A CUDA runtime for a machine without one: it counts every call and keeps CUDA's meaning where
/// the order of work, handles and memory are concerned. Kernels are counted and compute nothing.
///
/// The program links it in place of libcudart and libcublasLt. Streams run their copies, fills and
/// host functions in order and as late as possible: when the host waits, or asks while the device
/// is not busy. So a wait that is missing shows in the data. Thread-safe.
namespace fake_cuda {

/// How often each function of the CUDA API was called, by name; those never called are left out.
/// What the compiler adds around a launch (registration, the configuration's stack) is not counted.
class Counts {
 public:
  [[nodiscard]] std::uint64_t operator[](std::string_view call) const;
  [[nodiscard]] std::map<std::string, std::uint64_t, std::less<>> const& calls() const noexcept {
    return calls_;
  }
  void add(std::string_view call);
  /// What was called since `before`.
  [[nodiscard]] Counts since(Counts const& before) const;

 private:
  std::map<std::string, std::uint64_t, std::less<>> calls_;
};

/// Since the program began.
[[nodiscard]] Counts counts();

/// Runs `work`, and tells what it called.
template <class Work>
[[nodiscard]] Counts calls_of(Work&& work) {
  Counts const before = counts();
  work();
  return counts().since(before);
}

/// What was created and not yet destroyed.
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
/// Handles of cuBLASLt, which the library keeps for later groups: no part of what has to go.
[[nodiscard]] std::uint64_t blas_handles();

/// What was done against CUDA's rules since the last call, a sentence each: handles and memory
/// that are not, or no longer, there (their handles never come again), copies of pageable memory,
/// calls from inside a host function. The calls have failed too, where CUDA's do.
[[nodiscard]] std::vector<std::string> take_misuses();

/// While the guard lives the device does not get on by itself: queries answer cudaErrorNotReady
/// until the host has waited for the work. One at a time.
class BusyDevice {
 public:
  BusyDevice();
  ~BusyDevice();
  BusyDevice(BusyDevice const&) = delete;
  BusyDevice& operator=(BusyDevice const&) = delete;
};

/// While the guard lives, the `nth` call of this name from now on fails once, with
/// cudaErrorLaunchFailure, and does nothing. One at a time.
class FailingCall {
 public:
  FailingCall(std::string_view name, std::uint64_t nth);
  ~FailingCall();
  FailingCall(FailingCall const&) = delete;
  FailingCall& operator=(FailingCall const&) = delete;
};

}  // namespace fake_cuda
