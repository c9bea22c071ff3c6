// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/operation.hpp>
#include <msstream/runtime/runtime.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace msstream {

/// The cost of a kernel that has the simulated device to itself.
struct KernelCost {
  double device_ns;
  /// The number of multiprocessors that it can fill, at most those of the device; 0 if it needs
  /// none.
  int sms;
  /// The host time of the call that launches the kernel. If empty, SimCost::launch_call_ns.
  std::optional<double> launch_ns = std::nullopt;
};

/// The costs of calls and work in a simulation. The defaults are for one H200. A number is a guess
/// unless its comment says that it was measured.
struct SimCost {
  // Host times of the calls, measured.
  double launch_call_ns = 2600;
  double copy_call_ns = 2600;  ///< a call that copies or fills; assumed equal to a launch
  double record_call_ns = 130;
  double wait_call_ns = 110;
  double query_call_ns = 140;

  // Speeds of copies; each engine runs one copy at a time. Measured, except for the latency.
  double h2d_bytes_per_ns = 55;
  double d2h_bytes_per_ns = 55;
  double d2d_bytes_per_ns = 4280;  ///< counts the bytes read and the bytes written
  double copy_latency_ns = 1000;   ///< the latency of h2d and d2h copies

  /// The number of multiprocessors. Kernels that together need more run proportionally slower.
  int sm_count = 132;
  /// The cost of an operation's first kernel, which includes the operation's other kernels. Work
  /// outside every operation is passed with an empty name and no uses.
  std::function<KernelCost(std::string_view name, std::span<MemoryUse const> uses)> kernel =
      by_bytes;

  /// Returns the measured time of a small kernel in a chain, plus the used bytes at the device's
  /// bandwidth, on one multiprocessor for every 64 KiB, at most those of the device.
  [[nodiscard]] static KernelCost by_bytes(std::string_view name, std::span<MemoryUse const> uses);

  /// Returns the time for which a copy occupies its engine. A fill is a d2d copy of half its bytes.
  [[nodiscard]] double copy_ns(CopyKind kind, double bytes) const;
};

}  // namespace msstream
