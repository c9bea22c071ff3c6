// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/processes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>

namespace msstream::overlap {
namespace {

/// The part of a device's work that must be of one process if the device is that process's alone.
constexpr double kSoleShare = 0.95;

/// Returns the rank that an event names; empty without one, or for a number that is none.
std::optional<std::int64_t> rank_in(TraceEvent const& event) {
  constexpr std::int64_t kMostRanks = 1'000'000;
  auto const rank = event.get(Field::rank, -1);
  return rank >= 0 && rank < kMostRanks ? std::optional(rank) : std::nullopt;
}

bool is_of_device(TraceEvent const& event) {
  switch (event.category) {
    case Category::kernel:
    case Category::copy:
    case Category::fill:
    case Category::sync:
    case Category::device_annotation:
      return true;
    default:
      // The recorder of msstream describes records of events so.
      return event.phase == 'M' && event.has(Field::correlation);
  }
}

}  // namespace

void Processes::Marks::take(TraceEvent const& event) {
  if (auto const rank = rank_in(event); rank && event.phase == 'X') {
    ranks.insert(*rank);
    if (event.has(Field::pid)) {
      rank_of_process.emplace(event[Field::pid], *rank);
    }
  }
  if (auto const& label = event[Text::process]; !label.empty() && event.phase == 'X') {
    if (!labels.contains(label)) {
      labels.insert(label);
    }
  }
}

Processes::Processes(Marks marks, RecordingBuilder const& builder) : marks_(std::move(marks)) {
  if (marks_.ranks.size() > 1) {
    by_ = By::rank;
    for (auto const rank : marks_.ranks) {
      by_number_.emplace(rank, names_.size());
      ranks_.push_back(static_cast<int>(rank));
      names_.push_back(fmt::format("rank {}", rank));
    }
  } else if (marks_.labels.size() > 1) {
    by_ = By::label;
    for (auto const& label : marks_.labels) {
      ranks_.push_back(static_cast<int>(names_.size()));
      names_.push_back(label.substr(0, label.find_last_not_of(' ') + 1));
    }
  } else {
    find_processes(builder);
  }
}

void Processes::find_processes(RecordingBuilder const& builder) {
  std::map<std::int64_t, std::uint64_t> work_of_process;
  std::vector<std::pair<Correlation, std::int64_t>> calls;
  std::set<std::int64_t> callers;
  builder.for_each_thread([&](std::int64_t process) { callers.insert(process); });
  if (callers.size() < 2) {
    names_.resize(1);
    ranks_.assign(1, kUnknown);
    return;
  }
  builder.for_each_call([&](Correlation correlation, std::int64_t process) {
    calls.emplace_back(correlation, process);
  });
  std::ranges::sort(calls);
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  auto const issuers_of = [&calls](Correlation correlation) {
    auto const begin = std::ranges::lower_bound(
        calls, correlation, {}, [](auto const& call) { return call.first; });
    auto const end = std::ranges::upper_bound(
        calls, correlation, {}, [](auto const& call) { return call.first; });
    return std::span(begin, end);
  };
  builder.for_each_work([&](Correlation correlation, int, bool) {
    for (auto const& [number, process] : issuers_of(correlation)) {
      ++work_of_process[process];
    }
  });
  if (work_of_process.size() < 2) {
    names_.resize(1);
    ranks_.assign(1, kUnknown);
    return;
  }
  by_ = By::process;
  for (auto const& [process, work] : work_of_process) {
    by_number_.emplace(process, names_.size());
    ranks_.push_back(static_cast<int>(names_.size()));
    names_.push_back(fmt::format("process {}", process));
  }
  // The issuers are in order like the calls: numbers of processes grow with their places.
  for (auto const& [correlation, process] : calls) {
    if (auto const found = by_number_.find(process); found != by_number_.end()) {
      issuers_.emplace_back(correlation, found->second);
    }
  }
  find_owners(builder, issuers_of);
}

/// Finds the devices that one process uses alone: nearly all work whose correlation names one call
/// is of that process, and no two activities have the correlation of one call.
template <class IssuersOf>
void Processes::find_owners(RecordingBuilder const& builder, IssuersOf issuers_of) {
  std::map<std::int64_t, std::vector<std::uint64_t>> votes;
  std::map<std::int64_t, std::vector<Correlation>> unclear;
  builder.for_each_work([&](Correlation correlation, int device, bool is_graph_node) {
    auto const issuers = issuers_of(correlation);
    if (issuers.size() == 1) {
      auto& counts = votes[device];
      counts.resize(names_.size());
      ++counts[by_number_.at(issuers.front().second)];
    } else if (issuers.size() > 1 && !is_graph_node) {
      unclear[device].push_back(correlation);
    }
  });
  for (auto const& [device, counts] : votes) {
    std::uint64_t all = 0;
    for (auto const count : counts) {
      all += count;
    }
    auto const most = std::ranges::max_element(counts);
    auto& correlations = unclear[device];
    std::ranges::sort(correlations);
    bool const is_shared = std::ranges::adjacent_find(correlations) != correlations.end();
    if (!is_shared && static_cast<double>(*most) >= kSoleShare * static_cast<double>(all)) {
      owners_.emplace(device, static_cast<std::size_t>(most - counts.begin()));
    }
  }
}

std::size_t Processes::owner_of(std::int64_t device) const {
  auto const found = owners_.find(device);
  return found == owners_.end() ? kNobody : found->second;
}

std::size_t Processes::of_work(TraceEvent const& event) {
  auto const owner = owner_of(event.get(Field::device, event.get(Field::pid, 0)));
  auto const correlation = event.get(Field::correlation, 0);
  auto const begin = std::ranges::lower_bound(issuers_, Issuer{correlation, 0});
  auto end = begin;
  bool last_is_one = false;
  bool owner_is_one = false;
  while (end != issuers_.end() && end->first == correlation && correlation > 0) {
    last_is_one = last_is_one || end->second == last_;
    owner_is_one = owner_is_one || end->second == owner;
    ++end;
  }
  if (begin == end) {
    return owner != kNobody ? owner : last_;
  }
  if (end - begin == 1) {
    return begin->second;
  }
  if (owner_is_one) {
    return owner;
  }
  by_order_ += event.category != Category::sync ? 1 : 0;
  return last_is_one ? last_ : begin->second;
}

std::size_t Processes::of_process(TraceEvent const& event) {
  if (is_of_device(event)) {
    return of_work(event);
  }
  auto const found = by_number_.find(event.get(Field::pid, kUnknown));
  if (event.phase == 'M') {
    return found == by_number_.end() ? kAll : found->second;
  }
  if (found != by_number_.end()) {
    last_ = found->second;
    return last_;
  }
  return event.category == Category::overhead ? last_ : kNobody;
}

std::size_t Processes::of(TraceEvent const& event) {
  switch (by_) {
    case By::nothing:
      return kAll;
    case By::process:
      return of_process(event);
    case By::label: {
      auto const found = marks_.labels.find(event[Text::process]);
      if (found != marks_.labels.end()) {
        return static_cast<std::size_t>(std::distance(marks_.labels.begin(), found));
      }
      return event.phase == 'M' ? kAll : kNobody;
    }
    case By::rank:
      break;
  }
  auto rank = rank_in(event);
  if (!rank) {
    auto const found = marks_.rank_of_process.find(event.get(Field::pid, kUnknown));
    if (found == marks_.rank_of_process.end()) {
      return event.phase == 'M' ? kAll : kNobody;
    }
    rank = found->second;
  }
  auto const found = by_number_.find(*rank);
  return found == by_number_.end() ? kNobody : found->second;
}

std::string Processes::how() const {
  switch (by_) {
    case By::rank:
      return "their events name their rank";
    case By::label:
      return "their numbers of processes name them";
    default:
      break;
  }
  return by_order_ == 0 ? std::string("calls tell them apart")
                        : fmt::format(
                              "calls tell them apart, but for {} activities, whose calls have the "
                              "numbers of other calls: they follow from the order of the file",
                              by_order_);
}

}  // namespace msstream::overlap
