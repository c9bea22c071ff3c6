// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sim/sim_action.hpp"

#include <array>
#include <deque>
#include <vector>

namespace msstream::sim {

/// The jobs that run on a simulated device, in virtual time: kernels, which share the
/// multiprocessors, copies, which queue for the copy engine of their direction, and collectives,
/// which share the link to other devices. At most one job per stream runs at a time.
class DeviceLoad {
 public:
  explicit DeviceLoad(int sm_count) : sm_count_(sm_count) {}

  void start_kernel(StreamNumber stream, double device_ns, int sms);
  void start_copy(StreamNumber stream, CopyKind engine, double device_ns);
  /// Starts a collective, which leaves the link idle for `latency_ns` and then needs `link_ns` of
  /// it. Until it is done, kernels lack its `sms` multiprocessors.
  void start_collective(StreamNumber stream, double latency_ns, double link_ns, int sms);
  /// Returns the time in ns until the next job is done, provided that no job is added before;
  /// infinity if no job runs.
  [[nodiscard]] double next_done_in_ns() const;
  /// Advances the virtual time by `ns`, which must not exceed next_done_in_ns(). Appends the
  /// streams of the jobs that are then done to `done`: at least one if `ns` equals
  /// next_done_in_ns().
  void pass(double ns, std::vector<StreamNumber>& done);

 private:
  struct Job {
    StreamNumber stream;
    double left_ns;      ///< the remaining time if the job runs undisturbed
    double rounding_ns;  ///< the job is done if no more time than this remains
    int sms;
  };
  /// A collective: a wait in which the link is idle, then a transfer.
  struct Transfer {
    StreamNumber stream;
    double idle_ns;
    double idle_rounding_ns;
    double link_ns;
    double rounding_ns;
    int sms;
  };

  /// Returns the current speed of kernels, relative to a kernel that runs alone.
  [[nodiscard]] double rate() const noexcept;
  [[nodiscard]] static double done_in_ns(Job const& job, double rate) noexcept;
  /// Returns the number of collectives that share the link.
  [[nodiscard]] double on_link() const noexcept;
  void pass_transfers(double ns, std::vector<StreamNumber>& done);

  double sm_count_;
  long wanted_sms_ = 0;
  long held_sms_ = 0;  ///< by collectives
  std::vector<Job> kernels_;
  std::array<std::deque<Job>, 3> engines_;
  std::vector<Transfer> transfers_;
};

}  // namespace msstream::sim
