// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace msstream::doctor {

/// The times in which kernels ran, on one clock of the device, in ns.
struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
/// Returns the largest number of intervals that have an instant in common. Intervals that only
/// touch have none, and an interval without length counts for nothing.
[[nodiscard]] int most_at_once(std::vector<Interval> const& intervals);

/// Returns which part of the shorter of two pieces of work was hidden beside the longer one: from 0
/// (one after the other) to 1 (all of it). `first`, `second` and `both` are times of equal unit.
[[nodiscard]] double hidden_share(double first, double second, double both) noexcept;

/// Copies between two GPUs.
struct PeerMeasure {
  int other = 0;  ///< the number of the other GPU
  bool has_access = false;
  std::optional<double> gb_per_s = {};  ///< from the measured device to the other one
};

/// Measurements of one GPU. An empty member was not measured: `failures` says why.
struct DeviceMeasures {
  int device = 0;
  double link_gb_per_s = 0;  ///< what the link to the host can carry one way; 0 if unknown
  std::optional<double> pinned_h2d_gb_per_s = {};
  std::optional<double> pinned_d2h_gb_per_s = {};
  std::optional<double> pageable_h2d_gb_per_s = {};
  std::optional<double> pageable_d2h_gb_per_s = {};
  std::vector<PeerMeasure> peers = {};
  std::optional<double> launch_us = {};     ///< of an empty kernel
  std::optional<double> issue_us = {};      ///< of an operation that launches that kernel
  std::optional<double> replay_us = {};     ///< of a captured step
  int captured_operations = 0;              ///< of that step
  std::optional<int> streams_at_once = {};  ///< streams whose kernels ran at once
  int streams_tried = 0;
  bool max_connections_set = false;            ///< CUDA_DEVICE_MAX_CONNECTIONS is set
  std::optional<double> kernels_hidden = {};   ///< hidden_share() of two kernels on two streams
  std::optional<double> copy_hidden = {};      ///< of a copy beside a kernel
  std::optional<double> copies_hidden = {};    ///< of copies in both directions
  std::optional<double> memory_gb_per_s = {};  ///< of a copy on the device, read and written bytes
  /// Checks that failed: the id of the line, what was looked at, and the message.
  struct Failure {
    std::string id;
    std::string thing;
    std::string message;
  };
  std::vector<Failure> failures = {};
};

[[nodiscard]] Lines device_measure_lines(DeviceMeasures const& measures);

}  // namespace msstream::doctor
