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

/// What a kernel takes of the simulated device when it has the device to itself.
struct KernelCost {
  double device_ns;
  int sms;  ///< multiprocessors that it can fill, of those there are; 0: it needs none
  /// Of the call that launches it; none: SimCost::launch_call_ns.
  std::optional<double> launch_ns = std::nullopt;
};

/// What things cost in a simulation. The defaults are of one H200; where the comment does not say
/// that it was measured, the number is a guess.
struct SimCost {
  // On the host, measured.
  double launch_call_ns = 2600;
  double copy_call_ns = 2600;  ///< of a copy or a fill; taken to be a launch's
  double record_call_ns = 130;
  double wait_call_ns = 110;
  double query_call_ns = 140;

  // Copies, each engine one at a time; measured but for the latency.
  double h2d_bytes_per_ns = 55;
  double d2h_bytes_per_ns = 55;
  double d2d_bytes_per_ns = 4280;  ///< counting what is read and what is written
  double copy_latency_ns = 1000;   ///< of h2d and d2h copies

  /// Kernels that together want more run proportionally slower.
  int sm_count = 132;
  /// Of an operation's first kernel: the others of the operation come with it. Work outside every
  /// operation has no name and no uses.
  std::function<KernelCost(std::string_view name, std::span<MemoryUse const> uses)> kernel =
      by_bytes;

  /// The measured time of a small kernel in a chain, and the bytes used at the device's bandwidth;
  /// a multiprocessor for every 64 KiB, as far as there are.
  [[nodiscard]] static KernelCost by_bytes(std::string_view name, std::span<MemoryUse const> uses);

  /// For how long a copy, or a fill, which is a d2d copy of half its bytes, keeps its engine.
  [[nodiscard]] double copy_ns(CopyKind kind, double bytes) const;
};

}  // namespace msstream
