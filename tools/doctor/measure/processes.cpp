// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/processes.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace msstream::doctor {
namespace {

constexpr char const* kUnit = "operations/s";

/// Returns a line with a rate, and its ratio to that of `base`.
Line rate_line(
    std::string id, std::string thing, double rate, double base, std::string_view of_what) {
  Line line{Section::processes, std::move(id), std::move(thing)};
  line = with_quantity(std::move(line), {rate, kUnit});
  if (!of_what.empty() && base > 0) {
    line.value += fmt::format(", {} times {}", report::fixed(rate / base, 2), of_what);
  }
  return line;
}

}  // namespace

Lines process_lines(ProcessFacts const& facts) {
  auto const count = facts.processes;
  Lines lines{rate_line("one-group",
                        fmt::format("1 process, 1 group, on {}",
                                    facts.is_cuda ? "the GPU" : "the host runtime"),
                        facts.one_group,
                        0,
                        ""),
              rate_line("groups",
                        fmt::format("1 process, {} groups", count),
                        facts.groups,
                        facts.one_group,
                        "one group")};
  auto const separate_thing = fmt::format("{} processes{}", count, facts.is_cuda ? ", no MPS" : "");
  auto separate = rate_line(
      "processes", separate_thing, facts.separate.value_or(0), facts.groups, "the groups");
  if (!facts.separate) {
    separate =
        failed_line(Section::processes, "processes", separate_thing, facts.without_separate_reason);
    if (facts.is_cuda) {
      separate.advice += " In exclusive compute mode, one process at a time may use the GPU.";
    }
  } else if (facts.is_cuda) {
    separate = judged(std::move(separate),
                      Level::note,
                      "Without MPS, the device runs kernels of one process at a time, each for a "
                      "slice of time, and each process takes memory for a context of its own.");
  }
  lines.push_back(std::move(separate));
  if (!facts.is_cuda) {
    return lines;
  }
  if (!facts.with_mps) {
    Line line{Section::processes, "processes-mps", fmt::format("{} processes, MPS", count)};
    line.value = "not measured";
    lines.push_back(judged(std::move(line), Level::note, facts.without_mps_reason));
    return lines;
  }
  auto with = rate_line("processes-mps",
                        fmt::format("{} processes, MPS", count),
                        *facts.with_mps,
                        facts.groups,
                        "the groups");
  if (facts.separate) {
    with.value += fmt::format(", {} times without MPS",
                              report::fixed(*facts.with_mps / std::max(*facts.separate, 1.0), 2));
  }
  with.advice = "With MPS kernels of all processes overlap. A fault in one process may end all.";
  lines.push_back(std::move(with));
  return lines;
}

}  // namespace msstream::doctor
