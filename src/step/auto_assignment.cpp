// SPDX-License-Identifier: Apache-2.0
#include "assignment_text.hpp"
#include "launch_cost.hpp"
#include "step_units.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/auto_assignment.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace msstream {

namespace {

/// The minimum relative reduction of the predicted step time for which an assignment counts as
/// faster.
constexpr double kLeastGain = 1e-3;

/// Returns, for each operation of a step, the length in ns of the longest path of dependent
/// operations from its start to the end of the step. Includes `gap_ns` between operations.
std::vector<double> paths_to_end(StepTrace const& trace, double gap_ns) {
  auto const& operations = trace.operations();
  std::vector<double> longest(operations.size(), 0);
  for (std::size_t i = operations.size(); i-- > 0;) {
    longest[i] += operations[i].duration_ns();
    for (auto const earlier : operations[i].after) {
      longest[earlier] = std::max(longest[earlier], longest[i] + gap_ns);
    }
  }
  return longest;
}

/// The costs of launches and of waits for events that the list scheduler assumes.
struct Expected {
  explicit Expected(StepModel const& model) {
    if (model.launch == StepModel::Launch::graph) {
      in_stream_ns = model.in_stream_ns;
      across_streams_ns = model.across_streams_ns;
    } else {
      wait_ns = model.cost.record_call_ns + model.cost.wait_call_ns;
    }
  }
  double wait_ns = 0;  ///< host time per wait
  double in_stream_ns = 0;
  double across_streams_ns = 0;
};

/// Assigns units of operations to stream groups by list scheduling: each unit gets the group on
/// which its first operation in `order` would end earliest.
class ListScheduler {
 public:
  ListScheduler(StepTrace const& trace, StepUnits const& units, int groups, StepModel const& model)
      : trace_(trace),
        units_(units),
        model_(model),
        expected_(model),
        groups_(groups),
        free_ns_(static_cast<std::size_t>(groups) * kKinds, 0),
        end_ns_(trace.operations().size(), 0),
        chosen_(units.count(), kNone) {}

  /// Returns the group of each unit of operations. In `order`, every operation must come after the
  /// operations on which it depends.
  [[nodiscard]] std::vector<int> run(std::vector<std::size_t> const& order) {
    for (auto const i : order) {
      auto& group = chosen_[units_.of[i]];
      if (group == kNone) {
        group = 0;
        for (int other = 1; other < groups_; ++other) {
          auto const here = expect(i, other);
          auto const best = expect(i, group);
          if (here.first < best.first || (here.first == best.first && here.second < best.second)) {
            group = other;
          }
        }
      }
      end_ns_[i] = expect(i, group).first;
      free_ns_[stream_of(i, group)] = end_ns_[i] + expected_.in_stream_ns;
      host_ns_ += launch_ns(i) + expected_.wait_ns * static_cast<double>(waits(i, group));
    }
    return chosen_;
  }

 private:
  static constexpr int kNone = -1;
  static constexpr std::size_t kKinds = 3;

  [[nodiscard]] double launch_ns(std::size_t i) const {
    return model_.launch == StepModel::Launch::eager
               ? launch_cost_ns(trace_.operations()[i], model_)
               : 0;
  }
  [[nodiscard]] std::size_t stream_of(std::size_t i, int group) const {
    auto const kind = model_.merge_streams ? StreamKind::compute : trace_.operations()[i].kind;
    return static_cast<std::size_t>(group) * kKinds + static_cast<std::size_t>(kind);
  }
  [[nodiscard]] std::size_t waits(std::size_t i, int group) const {
    std::size_t count = 0;
    for (auto const earlier : trace_.operations()[i].after) {
      count += is_elsewhere(earlier, i, group) ? 1 : 0;
    }
    return count;
  }
  [[nodiscard]] bool is_elsewhere(std::size_t earlier, std::size_t i, int group) const {
    return stream_of(earlier, chosen_[units_.of[earlier]]) != stream_of(i, group);
  }
  /// Returns the time at which the operation would end on the group, and the number of waits for
  /// other streams that it would need there.
  [[nodiscard]] std::pair<double, std::size_t> expect(std::size_t i, int group) const {
    auto const waits_here = waits(i, group);
    double begin = host_ns_ + launch_ns(i) + expected_.wait_ns * static_cast<double>(waits_here);
    begin = std::max(begin, free_ns_[stream_of(i, group)]);
    for (auto const earlier : trace_.operations()[i].after) {
      bool const elsewhere = is_elsewhere(earlier, i, group);
      begin = std::max(
          begin,
          end_ns_[earlier] + (elsewhere ? expected_.across_streams_ns : expected_.in_stream_ns));
    }
    return {begin + trace_.operations()[i].duration_ns(), waits_here};
  }

  StepTrace const& trace_;
  StepUnits const& units_;
  StepModel const& model_;
  Expected expected_;
  int groups_;
  double host_ns_ = 0;
  std::vector<double> free_ns_;  ///< the time when each stream is free
  std::vector<double> end_ns_;   ///< the end time of each operation
  std::vector<int> chosen_;      ///< the group of each unit
};

/// Returns, for each unit of operations, the stream group that ran most of its time in the
/// recording. Groups that the assignment does not have count as group 0.
std::vector<int> recorded_by_unit(StepTrace const& trace, StepUnits const& units, int groups) {
  std::vector<int> by_unit;
  for (auto const& operations : units.operations) {
    std::vector<double> time(static_cast<std::size_t>(groups), 0);
    for (auto const i : operations) {
      int const group = trace.group_of(i);
      auto const place = static_cast<std::size_t>(group >= 0 && group < groups ? group : 0);
      time[place] += trace.operations()[i].duration_ns();
    }
    by_unit.push_back(static_cast<int>(std::max_element(time.begin(), time.end()) - time.begin()));
  }
  return by_unit;
}

/// Returns the units of operations, ordered by total time, longest first.
std::vector<std::size_t> by_time(StepUnits const& units) {
  std::vector<std::size_t> order(units.count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return units.busy_ns[a] > units.busy_ns[b];
  });
  return order;
}

/// Assigns units of operations to groups round-robin, with the trunk (all operations outside name
/// scopes) on group 0.
std::vector<int> in_turn(StepUnits const& units, int groups) {
  std::vector<int> by_unit;
  int next = 0;
  for (std::size_t unit = 0; unit < units.count(); ++unit) {
    by_unit.push_back(units.is_trunk[unit] ? 0 : next++ % groups);
  }
  return by_unit;
}

/// Assigns each unit of operations, longest first, to the group with the least time so far (Graham:
/// LPT, 1969), with the trunk (all operations outside name scopes) on group 0.
std::vector<int> balanced(StepUnits const& units, int groups) {
  std::vector<int> by_unit(units.count(), 0);
  std::vector<double> busy(static_cast<std::size_t>(groups), 0);
  for (std::size_t unit = 0; unit < units.count(); ++unit) {
    busy[0] += units.is_trunk[unit] ? units.busy_ns[unit] : 0;
  }
  for (auto const unit : by_time(units)) {
    if (!units.is_trunk[unit]) {
      auto const least = std::min_element(busy.begin(), busy.end());
      *least += units.busy_ns[unit];
      by_unit[unit] = static_cast<int>(least - busy.begin());
    }
  }
  return by_unit;
}

/// A search over assignments of operation names to stream groups. Keeps the best assignment that it
/// has tried.
class Search {
 public:
  Search(StepTrace const& trace, StepUnits const& names, AutoAssignment::Options const& options)
      : trace_(trace),
        names_(names),
        options_(options),
        best_(names.count(), 0),
        best_ns_(price(best_)),
        best_waits_(count_waits(best_)),
        one_group_ns_(best_ns_) {}

  /// Keeps the assignment if it is predicted to be faster than the best one so far, or no slower
  /// with fewer waits. Returns whether it was kept.
  bool consider(StepUnits const& units, std::vector<int> const& by_unit) {
    std::vector<int> candidate;
    for (auto const& operations : names_.operations) {
      candidate.push_back(by_unit[units.of[operations.front()]]);
    }
    return consider(std::move(candidate));
  }
  /// Moves one unit at a time to another group, longest units first, until no move is an
  /// improvement or the limit of predictions is reached.
  void refine(StepUnits const& units, int groups) {
    auto const order = by_time(units);
    for (bool moved = true; moved;) {
      moved = false;
      for (auto const unit : order) {
        for (int group = 0; group < groups && may_go_on(); ++group) {
          auto candidate = best_;
          for (auto const i : units.operations[unit]) {
            candidate[names_.of[i]] = group;
          }
          moved = (candidate != best_ && consider(std::move(candidate))) || moved;
        }
      }
    }
  }
  [[nodiscard]] std::vector<int> const& best() const noexcept { return best_; }
  [[nodiscard]] double best_ns() const noexcept { return best_ns_; }
  [[nodiscard]] double one_group_ns() const noexcept { return one_group_ns_; }

 private:
  bool consider(std::vector<int> candidate) {
    double const ns = price(candidate);
    bool const is_faster = ns < best_ns_ * (1 - kLeastGain);
    if (!is_faster && ns > best_ns_) {
      return false;
    }
    auto const waits = count_waits(candidate);
    if (!is_faster && waits >= best_waits_) {
      return false;
    }
    best_ = std::move(candidate);
    best_ns_ = ns;
    best_waits_ = waits;
    return true;
  }
  [[nodiscard]] double price(std::vector<int> const& candidate) {
    ++predictions_;
    return predict(trace_, names_.spread(candidate), options_.model);
  }
  [[nodiscard]] std::size_t count_waits(std::vector<int> const& candidate) const {
    return minimal_waits(trace_, names_.spread(candidate), options_.model.merge_streams).necessary;
  }
  [[nodiscard]] bool may_go_on() const noexcept { return predictions_ < options_.most_predictions; }

  StepTrace const& trace_;
  StepUnits const& names_;
  AutoAssignment::Options const& options_;
  std::size_t predictions_ = 0;
  std::vector<int> best_;
  double best_ns_;
  std::size_t best_waits_;
  double one_group_ns_;
};

}  // namespace

AutoAssignment auto_assignment(StepTrace const& trace,
                               int groups,
                               AutoAssignment::Options const& options) {
  require(
      groups >= 1 && groups <= 256, "auto_assignment: expected 1 to 256 groups, found {}", groups);
  auto const cuts = cuts_of(trace);
  auto const& names = cuts.back();
  Search search(trace, names, options);

  std::vector<std::size_t> as_issued(trace.operations().size());
  std::iota(as_issued.begin(), as_issued.end(), std::size_t{0});
  auto by_path = as_issued;
  auto const paths = paths_to_end(trace, Expected(options.model).in_stream_ns);
  // An operation has a path to the end at least as long as those of its successors. If the paths
  // are equal, the stable sort keeps it before its successors.
  std::stable_sort(by_path.begin(), by_path.end(), [&](std::size_t a, std::size_t b) {
    return paths[a] > paths[b];
  });
  search.consider(names, recorded_by_unit(trace, names, groups));
  for (auto const& units : cuts) {
    for (int count = 2; count < 2 * groups; count *= 2) {
      int const used = std::min(count, groups);
      search.consider(units, ListScheduler(trace, units, used, options.model).run(by_path));
      search.consider(units, ListScheduler(trace, units, used, options.model).run(as_issued));
      search.consider(units, in_turn(units, used));
      search.consider(units, balanced(units, used));
    }
  }
  for (auto const& units : cuts) {
    search.refine(units, groups);
  }

  AutoAssignment result{.groups = names.spread(search.best()),
                        .predicted_ns = search.best_ns(),
                        .one_group_ns = search.one_group_ns(),
                        .recorded_ns = predict(trace, recorded_groups(trace), options.model)};
  bool const keeps_recorded = result.recorded_ns < result.predicted_ns;
  if (keeps_recorded) {
    result.groups = recorded_groups(trace);
    result.predicted_ns = result.recorded_ns;
  }
  std::vector<NamedGroup> lines;
  for (std::size_t unit = 0; unit < names.count() && !keeps_recorded; ++unit) {
    lines.push_back({trace.operations()[names.operations[unit].front()].name, search.best()[unit]});
  }
  result.text = assignment_text(lines,
                                {.launch = options.model.launch,
                                 .operations = trace.operations().size(),
                                 .groups = groups,
                                 .predicted_ns = result.predicted_ns,
                                 .one_group_ns = result.one_group_ns,
                                 .recorded_ns = result.recorded_ns});
  return result;
}

}  // namespace msstream
