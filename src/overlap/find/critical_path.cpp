// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/critical_path.hpp"

#include "overlap/find/tolerances.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace msstream::overlap {
namespace {

class Path {
 public:
  Path(Program const& program, Host const& host, Index device) : program_(program), host_(host) {
    auto const ends_before = [this](Index a, Index b) {
      return end(a) != end(b) ? end(a) < end(b) : a < b;
    };
    by_end_ = program.of_device(device);
    if (!std::ranges::is_sorted(by_end_, ends_before)) {
      sorted_.assign(by_end_.begin(), by_end_.end());
      std::ranges::sort(sorted_, ends_before);
      by_end_ = sorted_;
    }
  }
  Path(Path const&) = delete;
  Path& operator=(Path const&) = delete;

  /// Returns what an activity waited for last; kNone at the start of the program.
  [[nodiscard]] Index before(Index i) const {
    auto const close = tolerance::of_order(program_.recording());
    Index latest = program_.previous(i);
    for (auto const& wait : program_.waits_of(i)) {
      if (wait.target != kNone && wait.target < i &&
          (latest == kNone || end(wait.target) > end(latest))) {
        latest = wait.target;
      }
    }
    Ns const ready = latest == kNone ? 0 : end(latest);
    auto const begin = program_.activity(i).time.begin;
    if (program_.has_call(i) && program_.issued(i) > ready) {
      auto const issuer = through_host(i);
      return issuer == kNone ? latest : issuer;
    }
    if (begin - ready > close) {
      auto const other = ended_before(begin);
      if (other != kNone && begin - end(other) <= close && other < i) {
        return other;
      }
    }
    return latest;
  }

 private:
  [[nodiscard]] Ns end(Index i) const { return program_.activity(i).time.end; }

  [[nodiscard]] Index ended_before(Ns time) const {
    auto const after =
        std::ranges::upper_bound(by_end_, time, {}, [this](Index i) { return end(i); });
    return after == by_end_.begin() ? kNone : *(after - 1);
  }

  /// Returns the work that the host waited for or issued before it issued an activity.
  [[nodiscard]] Index through_host(Index i) const {
    auto const call = program_.activity(i).call;
    auto const& calls = host_.calls_of(program_.thread_of(i));
    auto at = std::ranges::lower_bound(calls, call);
    while (at != calls.begin()) {
      --at;
      if (program_.call(*at).kind == CallKind::synchronize) {
        auto const waited_for = ended_before(program_.call(*at).time.end);
        return waited_for != kNone && waited_for < i ? waited_for : kNone;
      }
      auto const issued = program_.issued_by(*at);
      if (!issued.empty()) {
        return issued.back() < i ? issued.back() : kNone;
      }
    }
    return kNone;
  }

  Program const& program_;
  Host const& host_;
  std::span<Index const> by_end_;  ///< the device's activities, ordered by their ends
  std::vector<Index> sorted_;      ///< what by_end_ shows, unless begins have that order, too
};

}  // namespace

std::vector<Index> critical_path(Program const& program,
                                 Host const& host,
                                 Index device,
                                 Interval window) {
  Path const path(program, host, device);
  Index last = kNone;
  for (auto const i : program.of_device(device)) {
    auto const& time = program.activity(i).time;
    if (time.begin < window.end && time.end > window.begin &&
        (last == kNone || time.end >= program.activity(last).time.end)) {
      last = i;
    }
  }
  std::vector<Index> chain;
  while (last != kNone && program.activity(last).time.end > window.begin) {
    chain.push_back(last);
    last = path.before(last);
  }
  std::ranges::reverse(chain);
  return chain;
}

}  // namespace msstream::overlap
