// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/sim_load.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace msstream::sim {

namespace {

/// The relative rounding error of a job's remaining time: a job is done if at most this fraction of
/// its total time remains.
constexpr double kRounding = 1e-12;

}  // namespace

void DeviceLoad::start_kernel(StreamNumber stream, double device_ns, int sms) {
  kernels_.push_back({stream, device_ns, device_ns * kRounding, sms});
  wanted_sms_ += sms;
}

void DeviceLoad::start_copy(StreamNumber stream, CopyKind engine, double device_ns) {
  engines_[static_cast<std::size_t>(engine)].push_back(
      {stream, device_ns, device_ns * kRounding, 0});
}

double DeviceLoad::rate() const noexcept {
  auto const wanted = static_cast<double>(wanted_sms_);
  return wanted > sm_count_ ? sm_count_ / wanted : 1.0;
}

double DeviceLoad::next_done_in_ns() const {
  double least = std::numeric_limits<double>::infinity();
  for (auto const& job : kernels_) {
    least = std::min(least, done_in_ns(job, rate()));
  }
  for (auto const& engine : engines_) {
    if (!engine.empty()) {
      least = std::min(least, engine.front().left_ns);
    }
  }
  return least;
}

double DeviceLoad::done_in_ns(Job const& job, double rate) noexcept {
  // Work that needs no multiprocessor, such as a host function, is not slowed down by other work.
  return job.sms == 0 ? job.left_ns : job.left_ns / rate;
}

void DeviceLoad::pass(double ns, std::vector<StreamNumber>& done) {
  double const speed = rate();
  std::erase_if(kernels_, [&](Job& job) {
    // Completes the job that is due next, even if rounding leaves a remainder; otherwise time would
    // not advance.
    bool const due = done_in_ns(job, speed) <= ns;
    job.left_ns -= job.sms == 0 ? ns : ns * speed;
    if (!due && job.left_ns > job.rounding_ns) {
      return false;
    }
    wanted_sms_ -= job.sms;
    done.push_back(job.stream);
    return true;
  });
  for (auto& engine : engines_) {
    if (!engine.empty()) {
      auto& job = engine.front();
      job.left_ns -= ns;
      if (job.left_ns <= job.rounding_ns) {
        done.push_back(job.stream);
        engine.pop_front();
      }
    }
  }
}

}  // namespace msstream::sim
