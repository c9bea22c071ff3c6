// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/processes.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace msstream::doctor {
namespace {

constexpr double kSlower = 0.8;       // of the rate of groups: worth knowing
constexpr double kOverlapping = 1.2;  // of the rate of one group: kernels overlap
constexpr double kSlowStartMs = 1000;

Line line_of_set(std::string id, std::string thing) {
  return {Section::processes, std::move(id), std::move(thing)};
}

std::string ratio_text(double rate, double base, std::string_view of_what) {
  return base > 0 ? fmt::format(", {} times {}", report::fixed(rate / base, 2), of_what)
                  : std::string();
}

/// Describes how long a batch takes, such as `median 21.0 µs, p99 30.1 µs`.
std::string batch_text(LoadRate const& rate) {
  return fmt::format(
      "median {}, p99 {}", text_of({rate.p50_us, "µs"}), text_of({rate.p99_us, "µs"}));
}

/// A set of processes in the report: its ids begin with `id`.
struct ShownSet {
  std::string id;
  std::string thing;
  ProcessSet const* set;
  ProcessSet const* base;  ///< with which it is compared; null for none
  std::string_view base_name;
};

Line launches_line(ShownSet const& shown) {
  auto const& rate = shown.set->launches;
  auto line = with_quantity(line_of_set(shown.id, shown.thing), {rate.per_second, "operations/s"});
  if (shown.base != nullptr) {
    line.value += ratio_text(rate.per_second, shown.base->launches.per_second, shown.base_name);
  }
  return line;
}

Line kernels_line(ShownSet const& shown) {
  auto const& rate = shown.set->kernels;
  auto line = with_quantity(
      line_of_set(shown.id + "-kernels",
                  fmt::format("{}: {} µs kernels", shown.thing, kKernelOfLoad.count())),
      {rate.per_second, "kernels/s"});
  if (shown.base != nullptr) {
    line.value += ratio_text(rate.per_second, shown.base->kernels.per_second, shown.base_name);
  }
  line.value += ", " + batch_text(rate);
  return line;
}

Line start_line(ShownSet const& shown, bool is_cuda) {
  auto line = with_quantity(
      line_of_set(shown.id + "-start", fmt::format("{}: first operation", shown.thing)),
      {shown.set->first_ms, "ms"});
  line.value = fmt::format("after {}", line.value);
  if (is_cuda && shown.set->first_ms >= kSlowStartMs) {
    return judged(std::move(line),
                  Level::note,
                  "Each process pays that when it starts. Keep processes running, or use groups, "
                  "which pay it once. Without persistence mode the driver starts, too.");
  }
  return line;
}

Line memory_line_of_set(ShownSet const& shown, int processes) {
  auto line = line_of_set(shown.id + "-memory", fmt::format("{}: GPU memory", shown.thing));
  if (!shown.set->bytes) {
    line.value = "unknown";
    return line;
  }
  line.quantity = {*shown.set->bytes, "bytes"};
  line.value = bytes_text(*shown.set->bytes);
  if (processes > 1) {
    line.value += fmt::format(", {} a process", bytes_text(*shown.set->bytes / processes));
  }
  if (shown.base != nullptr && shown.base->bytes && *shown.set->bytes > *shown.base->bytes) {
    line.value += fmt::format(
        ", {} more than {}", bytes_text(*shown.set->bytes - *shown.base->bytes), shown.base_name);
  }
  return line;
}

/// Judges processes by what kernels gain or lose beside groups.
Line judged_beside_groups(Line line,
                          ProcessSet const& set,
                          ProcessSet const& groups,
                          bool has_mps) {
  auto const ratio =
      groups.kernels.per_second > 0 ? set.kernels.per_second / groups.kernels.per_second : 1.0;
  if (ratio >= kSlower) {
    line.advice =
        has_mps ? "Kernels of the processes overlap. A fault in one process may end all." : "";
    return line;
  }
  return judged(std::move(line),
                Level::note,
                has_mps ? "Even with MPS, groups of one process do more. Use groups, unless the "
                          "programs know nothing of each other."
                        : "Without MPS the device runs kernels of one process at a time, each for "
                          "a slice of time. Use groups of one process, or MPS.");
}

}  // namespace

Lines process_lines(ProcessFacts const& facts) {
  auto const count = facts.processes;
  Lines lines;
  auto const add = [&](ShownSet const& shown, int processes) {
    lines.push_back(launches_line(shown));
    lines.push_back(kernels_line(shown));
    lines.push_back(start_line(shown, facts.is_cuda));
    if (facts.is_cuda) {
      lines.push_back(memory_line_of_set(shown, processes));
    }
    return lines.end() - (facts.is_cuda ? 3 : 2);  // the line about kernels
  };
  add({"one-group", "1 process, 1 group", &facts.one_group, nullptr, {}}, 1);
  lines.front().thing += facts.is_cuda ? ", on the GPU" : ", on the host runtime";
  auto const of_groups = add({"groups",
                              fmt::format("1 process, {} groups", count),
                              &facts.groups,
                              &facts.one_group,
                              "one group"},
                             1);
  if (facts.is_cuda &&
      facts.groups.kernels.per_second < kOverlapping * facts.one_group.kernels.per_second) {
    *of_groups = judged(std::move(*of_groups),
                        Level::note,
                        "Kernels of the groups do not overlap, although each takes a part of the "
                        "device: run msstream-doctor, which measures the overlap of kernels and "
                        "the hardware queues.");
  }
  auto const separate_thing = fmt::format("{} processes{}", count, facts.is_cuda ? ", no MPS" : "");
  if (facts.separate) {
    auto const line =
        add({"processes", separate_thing, &*facts.separate, &facts.groups, "the groups"}, count);
    if (facts.is_cuda) {
      *line = judged_beside_groups(std::move(*line), *facts.separate, facts.groups, false);
    }
  } else {
    auto line =
        failed_line(Section::processes, "processes", separate_thing, facts.without_separate_reason);
    if (facts.is_cuda) {
      line.advice += " In exclusive compute mode, one process at a time may use the GPU.";
    }
    lines.push_back(std::move(line));
  }
  if (!facts.is_cuda) {
    return lines;
  }
  auto const mps_thing = fmt::format("{} processes, MPS", count);
  if (!facts.with_mps) {
    auto line = line_of_set("processes-mps", mps_thing);
    line.value = "not measured";
    lines.push_back(judged(std::move(line), Level::note, facts.without_mps_reason));
    return lines;
  }
  auto const line =
      add({"processes-mps", mps_thing, &*facts.with_mps, &facts.groups, "the groups"}, count);
  if (facts.separate) {
    line->value += ratio_text(facts.with_mps->kernels.per_second,
                              facts.separate->kernels.per_second,
                              "the kernels without MPS");
  }
  *line = judged_beside_groups(std::move(*line), *facts.with_mps, facts.groups, true);
  return lines;
}

}  // namespace msstream::doctor
