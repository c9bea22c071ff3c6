// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/ledger.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::overlap {
namespace {

void append_new(std::vector<Index>& list, Index index) {
  if (index != kNone && (list.empty() || list.back() != index)) {
    list.push_back(index);
  }
}

void make_set(std::vector<Index>& list) {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

/// Keeps an occurrence if it is one of the largest; the earlier one of two that are equal.
void keep(std::vector<Charge>& largest, Charge const& charge) {
  auto const longer = [](Charge const& a, Charge const& b) {
    return a.time.length() > b.time.length();
  };
  if (largest.size() == kMostEvidence && !longer(charge, largest.back())) {
    return;
  }
  largest.insert(std::ranges::upper_bound(largest, charge, longer), charge);
  if (largest.size() > kMostEvidence) {
    largest.pop_back();
  }
}

}  // namespace

void Ledger::add(Charge const& charge) {
  if (charge.time.length() <= 0) {
    return;
  }
  if (!spans_.empty() && spans_.back().kind == charge.kind && spans_.back().cause == charge.cause) {
    spans_.back().time.end = charge.time.end;
  } else {
    spans_.push_back({charge.time, charge.kind, charge.cause});
  }
  if (charge.kind != TimeClass::idle) {
    busy_ += charge.time.length();
  }
  if (charge.cause) {
    gather(sums_[static_cast<std::size_t>(*charge.cause)], charge);
    missing_[static_cast<std::size_t>(charge.missing)] += charge.time.length();
  }
  if (charge.depends) {
    gather(dependent_, charge);
  } else if (charge.is_full) {
    gather(sums_[static_cast<std::size_t>(Cause::multiprocessors_full)], charge);
  }
}

void Ledger::add_beside(Charge const& charge) {
  if (charge.time.length() > 0) {
    gather(sums_[static_cast<std::size_t>(*charge.cause)], charge);
  }
}

void Ledger::gather(CauseSum& sum, Charge const& charge) {
  auto const length = charge.time.length();
  (charge.kind == TimeClass::idle   ? sum.idle
   : charge.kind == TimeClass::lost ? sum.lost
                                    : sum.beside) += length;
  sum.guessed += charge.is_guess ? length : 0;
  if (!sum.intervals.empty() && sum.intervals.back().end == charge.time.begin) {
    sum.intervals.back().end = charge.time.end;
  } else {
    sum.intervals.push_back(charge.time);
  }
  append_new(sum.calls, charge.call);
  append_new(sum.held, charge.held);
  append_new(sum.holders, charge.holder);
  append_new(sum.waits, charge.wait);
  bool const continues = sum.occurrences > 0 && sum.last.held == charge.held &&
                         sum.last.holder == charge.holder &&
                         charge.time.begin - sum.last.time.end <= sum.last.time.length();
  if (continues) {
    sum.last.time.end = charge.time.end;
    name_call(sum, charge);
    return;
  }
  if (sum.occurrences > 0) {
    keep(sum.largest, sum.last);
  }
  ++sum.occurrences;
  sum.last = charge;
  sum.latest_call = kNone;
  sum.longest_call = 0;
  name_call(sum, charge);
}

/// Names the call of a charge in its occurrence, if no call before took more of it.
void Ledger::name_call(CauseSum& sum, Charge const& charge) {
  if (charge.call == kNone) {
    return;
  }
  if (charge.call != sum.latest_call) {
    sum.latest_call = charge.call;
    sum.latest_call_time = 0;
  }
  sum.latest_call_time += charge.time.length();
  if (sum.latest_call_time > sum.longest_call) {
    sum.longest_call = sum.latest_call_time;
    sum.last.call = charge.call;
  }
}

void Ledger::add_at_once(std::size_t count, Ns time) {
  if (at_once_.size() <= count) {
    at_once_.resize(count + 1, 0);
  }
  at_once_[count] += time;
}

void Ledger::close() {
  auto const end = [](CauseSum& sum) {
    if (sum.occurrences > 0) {
      keep(sum.largest, sum.last);
    }
    make_set(sum.calls);
    make_set(sum.held);
    make_set(sum.holders);
    make_set(sum.waits);
  };
  std::ranges::for_each(sums_, end);
  end(dependent_);
}

Missing Ledger::mostly_missing() const {
  auto most = Missing::nothing;
  Ns time = 0;
  Ns rest = of(Cause::unknown).time();
  for (int i = 1; i < kMissing; ++i) {
    auto const what = static_cast<Missing>(i);
    rest -= missing(what);
    if (missing(what) > time) {
      most = what;
      time = missing(what);
    }
  }
  return time >= rest ? most : Missing::nothing;
}

std::vector<ClassTime> Ledger::times() const {
  std::vector<ClassTime> times;
  for (auto const& span : spans_) {
    auto const same = [&](ClassTime const& time) {
      return time.kind == span.kind && time.cause == span.cause;
    };
    auto found = std::ranges::find_if(times, same);
    if (found == times.end()) {
      found = times.insert(times.end(), {span.kind, span.cause, 0});
    }
    found->time += span.time.length();
  }
  std::ranges::sort(times, [](ClassTime const& a, ClassTime const& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.cause < b.cause;
  });
  return times;
}

}  // namespace msstream::overlap
