// SPDX-License-Identifier: Apache-2.0
#include <msstream/runtime/sim_load.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace msstream::sim {

namespace {

/// Sums of times are not exact; a real device does nothing in a millionth of a nanosecond.
constexpr double kNothingLeftNs = 1e-6;

}  // namespace

void DeviceLoad::start_kernel(StreamNumber stream, double device_ns, int sms) {
  kernels_.push_back({stream, device_ns, sms});
  wanted_sms_ += sms;
}

void DeviceLoad::start_copy(StreamNumber stream, CopyKind engine, double device_ns) {
  engines_[static_cast<std::size_t>(engine)].push_back({stream, device_ns, 0});
}

double DeviceLoad::rate() const noexcept {
  auto const wanted = static_cast<double>(wanted_sms_);
  return wanted > sm_count_ ? sm_count_ / wanted : 1.0;
}

double DeviceLoad::next_done_in_ns() const {
  double least = std::numeric_limits<double>::infinity();
  for (auto const& job : kernels_) {
    // Work that needs no multiprocessor, such as a host call, is not slowed down.
    least = std::min(least, job.sms == 0 ? job.left_ns : job.left_ns / rate());
  }
  for (auto const& engine : engines_) {
    if (!engine.empty()) {
      least = std::min(least, engine.front().left_ns);
    }
  }
  return least;
}

void DeviceLoad::pass(double ns, std::vector<StreamNumber>& done) {
  double const speed = rate();
  std::erase_if(kernels_, [&](Job& job) {
    job.left_ns -= job.sms == 0 ? ns : ns * speed;
    if (job.left_ns > kNothingLeftNs) {
      return false;
    }
    wanted_sms_ -= job.sms;
    done.push_back(job.stream);
    return true;
  });
  for (auto& engine : engines_) {
    if (!engine.empty()) {
      engine.front().left_ns -= ns;
      if (engine.front().left_ns <= kNothingLeftNs) {
        done.push_back(engine.front().stream);
        engine.pop_front();
      }
    }
  }
}

}  // namespace msstream::sim
