// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/work.hpp"

#include "overlap/recording/duration_text.hpp"
#include "overlap/show/figures.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <utility>

namespace msstream::overlap {
namespace {

using Difference = WorkComparison::Difference;
using Verdict = WorkComparison::Verdict;

/// Counts that differ by at most their larger one divided by this are similar.
constexpr std::int64_t kSimilar = 100;

/// Returns a name with `*` for each number, so that `step 1` and `step 2` have one name.
std::string without_numbers(std::string_view name) {
  std::string out;
  for (char const c : name) {
    bool const is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!is_digit) {
      out += c;
    } else if (!out.ends_with('*')) {
      out += '*';
    }
  }
  return out;
}

std::int64_t sum_of(WorkDone::Counts const& counts) {
  std::int64_t sum = 0;
  for (auto const& [name, count] : counts) {
    sum += count;
  }
  return sum;
}

std::int64_t count_in(WorkDone::Counts const& counts, std::string const& name) {
  auto const found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

/// Returns the counts that differ, the largest difference first.
std::vector<Difference> differences_of(std::string const& what,
                                       WorkDone::Counts const& before,
                                       WorkDone::Counts const& after) {
  std::vector<Difference> out;
  auto const add = [&](std::string const& name) {
    Difference difference{what, name, count_in(before, name), count_in(after, name)};
    if (difference.before != difference.after && difference.before != kUnknown &&
        difference.after != kUnknown) {
      out.push_back(std::move(difference));
    }
  };
  for (auto const& [name, count] : before) {
    add(name);
  }
  for (auto const& [name, count] : after) {
    if (!before.contains(name)) {
      add(name);
    }
  }
  std::ranges::stable_sort(out, std::ranges::greater{}, [](Difference const& difference) {
    return std::abs(difference.after - difference.before);
  });
  return out;
}

/// Adds the counts of ranges that both have and that differ, and returns the longest of both.
std::optional<WorkComparison::Steps> compare_ranges(WorkDone const& before,
                                                    WorkDone const& after,
                                                    std::vector<Difference>& differences) {
  std::optional<WorkComparison::Steps> steps;
  for (auto const& [name, ranges] : before.ranges) {
    auto const found = after.ranges.find(name);
    if (found == after.ranges.end()) {
      continue;
    }
    bool const are_steps = std::max(ranges.count, found->second.count) > 1;
    if (are_steps && (!steps || ranges.time > steps->before.time)) {
      steps = WorkComparison::Steps{name, ranges, found->second};
    }
    if (ranges.count != found->second.count) {
      differences.push_back({"ranges",
                             name,
                             static_cast<std::int64_t>(ranges.count),
                             static_cast<std::int64_t>(found->second.count)});
    }
  }
  return steps;
}

std::string factor_text(std::int64_t before, std::int64_t after) {
  return before > 0 && after > 0
             ? fmt::format(
                   ", {}x",
                   report::fixed(static_cast<double>(after) / static_cast<double>(before), 2))
             : std::string();
}

/// Says which counts differ in all, such as `20 → 10 kernels (0.50x)`.
std::string totals_text(WorkComparison const& work) {
  std::string text;
  auto const add = [&](std::int64_t before, std::int64_t after, std::string const& of) {
    text += fmt::format("{}{} → {} {}{}",
                        text.empty() ? "" : "; ",
                        report::grouped(before),
                        report::grouped(after),
                        of,
                        factor_text(before, after));
  };
  if (work.graphs_before != work.graphs_after) {
    // Their kernels were not recorded.
  } else if (work.kernels_before != work.kernels_after) {
    add(work.kernels_before, work.kernels_after, "kernels");
  } else if (std::ranges::any_of(work.differences,
                                 [](auto const& one) { return one.what == "kernel"; })) {
    text = "as many kernels, of other names";
  }
  for (auto const& one : work.differences) {
    if (one.what == "bytes") {
      add(one.before, one.after, fmt::format("bytes {}", one.name));
    } else if (one.what == "ranges") {
      add(one.before, one.after, fmt::format("ranges {}", one.name));
    }
  }
  return text;
}

Verdict verdict_of(WorkComparison const& work) {
  bool const graphs_differ = work.graphs_before != work.graphs_after;
  if (work.differences.empty()) {
    return graphs_differ ? Verdict::unknown : Verdict::equal;
  }
  std::int64_t kernels = 0;
  for (auto const& one : work.differences) {
    auto const distance = std::abs(one.after - one.before);
    if (one.what == "kernel") {
      kernels += distance;
    } else if (distance > std::max(one.before, one.after) / kSimilar) {
      return Verdict::different;
    }
  }
  if (graphs_differ) {
    return Verdict::unknown;
  }
  return kernels > std::max(work.kernels_before, work.kernels_after) / kSimilar ? Verdict::different
                                                                                : Verdict::similar;
}

/// Says how many launches of both kinds there were, and why their kernels are not compared.
std::string graphs_text(WorkComparison const& work) {
  return fmt::format(
      "Kernels cannot be compared, since those of whole graphs were not recorded: {} → {} kernels "
      "outside of graphs, {} → {} launches of whole graphs.",
      report::grouped(work.kernels_before),
      report::grouped(work.kernels_after),
      report::grouped(work.graphs_before),
      report::grouped(work.graphs_after));
}

/// Says what follows from other work.
std::string advice_of(std::optional<WorkComparison::Steps> const& steps) {
  if (!steps) {
    return "Record as much work both times, or put an NVTX range around each step, so that steps "
           "can be counted.";
  }
  if (steps->before.count == steps->after.count) {
    return fmt::format(
        "Both have {}: compare the times only if the change itself is why their work differs, as "
        "for fused kernels.",
        fmt::format("{} {}", count_text(steps->before.count, "range", "ranges"), steps->name));
  }
  return fmt::format("Compare as many ranges {}, by --window.", steps->name);
}

}  // namespace

namespace {

/// Returns a sum; the largest or smallest number if it does not fit.
std::int64_t limited_sum(std::int64_t a, std::int64_t b) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  return b > 0 && a > most - b ? most : b < 0 && a < least - b ? least : a + b;
}

}  // namespace

WorkDone work_of(Explained const& explained) {
  auto const& [recording, report] = explained;
  std::vector<bool> reported(recording.devices.size());
  for (auto const& device : report.devices) {
    reported[device.device] = true;
  }
  WorkDone work;
  std::vector<std::int64_t> by_name;  // kernels and fills
  for (auto const& activity : recording.activities) {
    if (!is_in(activity.time, report.window) ||
        !reported[recording.streams[activity.stream].device]) {
      continue;
    }
    if (activity.kind == ActivityKind::graph) {
      ++work.graphs;
    } else if (activity.kind == ActivityKind::copy) {
      auto& bytes = work.copied[std::string(id_of(activity.direction))];
      bool const is_known = activity.bytes != kUnknown && bytes != kUnknown;
      bytes = is_known ? limited_sum(bytes, activity.bytes) : kUnknown;
    } else {
      by_name.resize(std::max<std::size_t>(by_name.size(), activity.name + 1));
      ++by_name[activity.name];
    }
  }
  for (NameId name = 0; name < by_name.size(); ++name) {
    if (by_name[name] > 0) {
      work.kernels[std::string(recording.names[name])] += by_name[name];
    }
  }
  for (auto const& range : recording.ranges) {
    bool const is_named = range.kind == RangeKind::nvtx || range.kind == RangeKind::annotation;
    if (is_named && is_in(range.time, report.window)) {
      auto& ranges = work.ranges[without_numbers(recording.names[range.name])];
      ++ranges.count;
      ranges.time = limited_sum(ranges.time, range.time.length());
    }
  }
  return work;
}

WorkComparison compare_work(std::optional<WorkDone> const& before,
                            std::optional<WorkDone> const& after) {
  WorkComparison work;
  if (!before || !after) {
    work.text =
        "A report of an older version has no counts of its work: write it again to know "
        "whether the times are comparable.";
    return work;
  }
  work.kernels_before = sum_of(before->kernels);
  work.kernels_after = sum_of(after->kernels);
  work.differences = differences_of("bytes", before->copied, after->copied);
  work.steps = compare_ranges(*before, *after, work.differences);
  work.graphs_before = before->graphs;
  work.graphs_after = after->graphs;
  bool const graphs_differ = before->graphs != after->graphs;
  if (!graphs_differ) {
    std::ranges::move(differences_of("kernel", before->kernels, after->kernels),
                      std::back_inserter(work.differences));
  }
  work.verdict = verdict_of(work);
  auto const totals = totals_text(work);
  switch (work.verdict) {
    case Verdict::equal:
      work.text = fmt::format(
          "Equal: {}, and as many bytes copied.",
          count_text(static_cast<std::uint64_t>(work.kernels_after), "kernel", "kernels"));
      break;
    case Verdict::similar:
      work.text = fmt::format("Nearly equal: {}.", totals);
      break;
    case Verdict::different:
      work.text = fmt::format("Not equal: {}. The times are not comparable. {}{}",
                              totals,
                              advice_of(work.steps),
                              graphs_differ ? " " + graphs_text(work) : std::string());
      break;
    case Verdict::unknown:
      work.text = fmt::format(
          "{}{}. {} The times compare if both did as many steps; record with --graph-nodes to "
          "compare kernels.",
          totals.empty() ? "As many bytes copied" : "Nearly as much copied: " + totals,
          work.steps ? fmt::format(", {} {}",
                                   count_text(work.steps->after.count, "range", "ranges"),
                                   work.steps->name)
                     : std::string(),
          graphs_text(work));
      break;
  }
  return work;
}

std::string_view id_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::equal:
      return "equal";
    case Verdict::similar:
      return "similar";
    case Verdict::different:
      return "different";
    case Verdict::unknown:
      break;
  }
  return "unknown";
}

std::string text_of(Difference const& difference) {
  return fmt::format("{} {}: {} → {}",
                     difference.what,
                     difference.name,
                     report::grouped(difference.before),
                     report::grouped(difference.after));
}

}  // namespace msstream::overlap
