// SPDX-License-Identifier: Apache-2.0
#include "assignment_text.hpp"

#include <msstream/base/error.hpp>
#include <msstream/base/text.hpp>
#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/step_waits.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {

namespace {

/// Less is not worth a change.
constexpr double kLeastGain = 1e-3;

/// The names of a step, each with its operations, numbered as they come.
struct Units {
  explicit Units(StepTrace const& trace) {
    std::map<std::string_view, std::size_t> numbers;
    for (std::size_t i = 0; i < trace.operations().size(); ++i) {
      auto const& operation = trace.operations()[i];
      auto const [found, is_new] = numbers.try_emplace(operation.name, operations.size());
      if (is_new) {
        operations.emplace_back();
        busy_ns.push_back(0);
      }
      of.push_back(found->second);
      operations[found->second].push_back(i);
      busy_ns[found->second] += operation.duration_ns();
    }
  }
  [[nodiscard]] std::size_t count() const noexcept { return operations.size(); }
  /// A group for each operation from one for each unit.
  [[nodiscard]] StepGroups spread(std::vector<int> const& groups) const {
    StepGroups spread;
    for (auto const unit : of) {
      spread.push_back(groups[unit]);
    }
    return spread;
  }

  std::vector<std::size_t> of;  ///< the unit of each operation
  std::vector<std::vector<std::size_t>> operations;
  std::vector<double> busy_ns;
};

/// For each operation, the longest path from its begin to the end of the step, gaps included.
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

/// What the list scheduler expects of launches and waits.
struct Expected {
  explicit Expected(StepModel const& model) {
    if (model.launch == StepLaunch::graph) {
      in_stream_ns = model.in_stream_ns;
      across_streams_ns = model.across_streams_ns;
    } else {
      launch_ns = model.cost.launch_call_ns;
      wait_ns = model.cost.record_call_ns + model.cost.wait_call_ns;
    }
  }
  double launch_ns = 0;  ///< of the host, for each operation
  double wait_ns = 0;    ///< of the host, for each wait
  double in_stream_ns = 0;
  double across_streams_ns = 0;
};

/// Gives units to groups in the order in which their first operation comes in `order`.
class ListScheduler {
 public:
  ListScheduler(StepTrace const& trace, Units const& units, int groups, StepModel const& model)
      : trace_(trace),
        units_(units),
        expected_(model),
        merge_streams_(model.merge_streams),
        groups_(groups),
        free_ns_(static_cast<std::size_t>(groups) * kKinds, 0),
        end_ns_(trace.operations().size(), 0),
        chosen_(units.count(), kNone) {}

  /// `order` has every operation after those that it follows.
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
      host_ns_ += expected_.launch_ns + expected_.wait_ns * static_cast<double>(waits(i, group));
    }
    return chosen_;
  }

 private:
  static constexpr int kNone = -1;
  static constexpr std::size_t kKinds = 3;

  [[nodiscard]] std::size_t stream_of(std::size_t i, int group) const {
    auto const kind = merge_streams_ ? StreamKind::compute : trace_.operations()[i].kind;
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
  /// When the operation would end on a group, and how many waits it would take there.
  [[nodiscard]] std::pair<double, std::size_t> expect(std::size_t i, int group) const {
    auto const waits_here = waits(i, group);
    double begin =
        host_ns_ + expected_.launch_ns + expected_.wait_ns * static_cast<double>(waits_here);
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
  Units const& units_;
  Expected expected_;
  bool merge_streams_;
  int groups_;
  double host_ns_ = 0;
  std::vector<double> free_ns_;  ///< of each stream
  std::vector<double> end_ns_;   ///< of each operation
  std::vector<int> chosen_;      ///< of each unit
};

/// Where most of each unit's time was spent when the step was recorded; groups that are not there
/// count as 0.
std::vector<int> recorded_by_unit(StepTrace const& trace, Units const& units, int groups) {
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

/// Assignments tried so far, and the best of them.
class Search {
 public:
  Search(StepTrace const& trace, Units const& units, AutoAssignmentOptions const& options)
      : trace_(trace),
        units_(units),
        options_(options),
        one_group_(units.count(), 0),
        best_(one_group_),
        best_ns_(price(best_)),
        best_waits_(count_waits(best_)),
        one_group_ns_(best_ns_) {}

  /// Takes what is faster, or no slower with fewer waits, and tells whether it did.
  bool consider(std::vector<int> const& candidate) {
    double const ns = price(candidate);
    bool const is_faster = ns < best_ns_ * (1 - kLeastGain);
    if (!is_faster && ns > best_ns_) {
      return false;
    }
    auto const waits = count_waits(candidate);
    if (!is_faster && waits >= best_waits_) {
      return false;
    }
    best_ = candidate;
    best_ns_ = ns;
    best_waits_ = waits;
    return true;
  }
  /// Moves one unit at a time, those that take longest first, until nothing gets better.
  void refine(int groups) {
    std::vector<std::size_t> order(units_.count());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return units_.busy_ns[a] > units_.busy_ns[b];
    });
    for (bool moved = true; moved;) {
      moved = false;
      for (auto const unit : order) {
        for (int group = 0; group < groups && may_go_on(); ++group) {
          if (group != best_[unit]) {
            auto candidate = best_;
            candidate[unit] = group;
            moved = consider(candidate) || moved;
          }
        }
      }
    }
  }
  [[nodiscard]] std::vector<int> const& best() const noexcept { return best_; }
  [[nodiscard]] double best_ns() const noexcept { return best_ns_; }
  [[nodiscard]] double one_group_ns() const noexcept { return one_group_ns_; }

 private:
  [[nodiscard]] double price(std::vector<int> const& candidate) {
    ++predictions_;
    return predict(trace_, units_.spread(candidate), options_.model);
  }
  [[nodiscard]] std::size_t count_waits(std::vector<int> const& candidate) const {
    return minimal_waits(trace_, units_.spread(candidate), options_.model.merge_streams).necessary;
  }
  [[nodiscard]] bool may_go_on() const noexcept { return predictions_ < options_.most_predictions; }

  StepTrace const& trace_;
  Units const& units_;
  AutoAssignmentOptions const& options_;
  std::size_t predictions_ = 0;
  std::vector<int> one_group_;
  std::vector<int> best_;
  double best_ns_;
  std::size_t best_waits_;
  double one_group_ns_;
};

}  // namespace

AutoAssignment auto_assignment(StepTrace const& trace,
                               int groups,
                               AutoAssignmentOptions const& options) {
  require(
      groups >= 1 && groups <= 256, "auto_assignment: expected 1 to 256 groups, found ", groups);
  Units const units(trace);
  Search search(trace, units, options);

  std::vector<std::size_t> as_issued(trace.operations().size());
  std::iota(as_issued.begin(), as_issued.end(), std::size_t{0});
  auto by_path = as_issued;
  auto const paths = paths_to_end(trace, Expected(options.model).in_stream_ns);
  // What an operation follows has the longer path, or the same one and comes first.
  std::stable_sort(by_path.begin(), by_path.end(), [&](std::size_t a, std::size_t b) {
    return paths[a] > paths[b];
  });
  for (int count = 2; count <= groups; count *= 2) {
    search.consider(ListScheduler(trace, units, count, options.model).run(by_path));
    search.consider(ListScheduler(trace, units, count, options.model).run(as_issued));
  }
  search.consider(ListScheduler(trace, units, groups, options.model).run(by_path));
  search.consider(recorded_by_unit(trace, units, groups));
  search.refine(groups);

  AutoAssignment result{.groups = units.spread(search.best()),
                        .predicted_ns = search.best_ns(),
                        .one_group_ns = search.one_group_ns(),
                        .recorded_ns = predict(trace, recorded_groups(trace), options.model)};
  bool const keeps_recorded = result.recorded_ns < result.predicted_ns;
  if (keeps_recorded) {
    result.groups = recorded_groups(trace);
    result.predicted_ns = result.recorded_ns;
  }
  std::vector<NamedGroup> names;
  for (std::size_t unit = 0; unit < units.count() && !keeps_recorded; ++unit) {
    names.push_back({trace.operations()[units.operations[unit].front()].name, search.best()[unit]});
  }
  result.text = assignment_text(names,
                                {.launch = options.model.launch,
                                 .operations = trace.operations().size(),
                                 .groups = groups,
                                 .predicted_ns = result.predicted_ns,
                                 .one_group_ns = result.one_group_ns,
                                 .recorded_ns = result.recorded_ns});
  return result;
}

}  // namespace msstream
