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

void DeviceLoad::start_collective(StreamNumber stream, double latency_ns, double link_ns, int sms) {
  transfers_.push_back(
      {stream, latency_ns, latency_ns * kRounding, link_ns, link_ns * kRounding, sms});
  held_sms_ += sms;
}

double DeviceLoad::rate() const noexcept {
  auto const wanted = static_cast<double>(wanted_sms_);
  // However many collectives there are, kernels go on: theirs is one multiprocessor at least.
  double const left = std::max(sm_count_ - static_cast<double>(held_sms_), 1.0);
  return wanted > left ? left / wanted : 1.0;
}

double DeviceLoad::on_link() const noexcept {
  return static_cast<double>(std::count_if(
      transfers_.begin(), transfers_.end(), [](auto const& one) { return one.idle_ns <= 0; }));
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
  for (auto const& one : transfers_) {
    least = std::min(least, one.idle_ns > 0 ? one.idle_ns : one.link_ns * on_link());
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
  pass_transfers(ns, done);
}

void DeviceLoad::pass_transfers(double ns, std::vector<StreamNumber>& done) {
  double const sharing = on_link();
  std::erase_if(transfers_, [&](Transfer& one) {
    if (one.idle_ns > 0) {
      one.idle_ns -= ns;
      if (one.idle_ns > one.idle_rounding_ns) {
        return false;
      }
      one.idle_ns = 0;
      if (one.link_ns > 0) {
        return false;
      }
    } else {
      // Like a kernel that is due, a transfer that is due ends whatever rounding leaves.
      bool const due = one.link_ns * sharing <= ns;
      one.link_ns -= ns / sharing;
      if (!due && one.link_ns > one.rounding_ns) {
        return false;
      }
    }
    held_sms_ -= one.sms;
    done.push_back(one.stream);
    return true;
  });
}

}  // namespace msstream::sim
