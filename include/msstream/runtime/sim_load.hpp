// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/sim_action.hpp>

#include <array>
#include <deque>
#include <vector>

namespace msstream::sim {

/// What a simulated device is running, in virtual time: kernels that share its multiprocessors,
/// copies that queue for the engine of their direction. At most one job a stream.
class DeviceLoad {
 public:
  explicit DeviceLoad(int sm_count) : sm_count_(sm_count) {}

  void start_kernel(StreamNumber stream, double device_ns, int sms);
  void start_copy(StreamNumber stream, CopyKind engine, double device_ns);
  /// Until the next job is done if none is added; infinity when nothing runs.
  [[nodiscard]] double next_done_in_ns() const;
  /// Lets `ns` pass, no more than until the next job is done; the streams of jobs that are done
  /// then go to `done`. After next_done_in_ns() there is at least one.
  void pass(double ns, std::vector<StreamNumber>& done);

 private:
  struct Job {
    StreamNumber stream;
    double left_ns;      ///< of its own, undisturbed time
    double rounding_ns;  ///< when no more is left, nothing is
    int sms;
  };

  /// How fast a kernel advances.
  [[nodiscard]] double rate() const noexcept;
  [[nodiscard]] static double done_in_ns(Job const& job, double rate) noexcept;

  double sm_count_;
  long wanted_sms_ = 0;
  std::vector<Job> kernels_;
  std::array<std::deque<Job>, 3> engines_;
};

}  // namespace msstream::sim
