// SPDX-License-Identifier: Apache-2.0
// Drawings of a step trace, for Graphviz and as SVG.
#include "base/json_writer.hpp"
#include "base/xml_text.hpp"

#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/step_trace.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msstream {

namespace {

constexpr std::array kPalette{
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700", "#004488"};
constexpr char const* kDefaultGroup = "#999999";

/// Returns the colour for an item number. The hue advances by the golden angle, so that it is far
/// from the hues of the preceding numbers.
std::string generated_colour(int number) {
  double const hue = std::fmod(number * 0.618'033'988'75, 1.0);
  constexpr double kDarkest = 70;
  constexpr double kBrightest = 190;
  auto const channel = [&](double shift) {
    double const wave = std::abs(6 * std::fmod(hue + shift, 1.0) - 3) - 1;
    return static_cast<int>(kDarkest + (kBrightest - kDarkest) * std::clamp(wave, 0.0, 1.0));
  };
  constexpr char const* hex = "0123456789abcdef";
  std::string out = "#";
  for (int const value : {channel(0), channel(2.0 / 3), channel(1.0 / 3)}) {
    out += {hex[value / 16], hex[value % 16]};
  }
  return out;
}

std::string colour_of(int group) {
  auto const number = static_cast<std::size_t>(std::max(group, 0));
  return group < 0                  ? kDefaultGroup
         : number < kPalette.size() ? kPalette[number]
                                    : generated_colour(group);
}

/// Returns the number as text with one digit after the decimal point.
std::string tenths(double value) {
  auto const rounded = static_cast<std::int64_t>(std::llround(value * 10));
  return fmt::format(
      "{}{}.{}", rounded < 0 ? "-" : "", std::abs(rounded) / 10, std::abs(rounded) % 10);
}
std::string us_text(double ns) {
  return tenths(ns / 1000) + " µs";
}

/// Returns the label of an operation as a quoted string for Graphviz, in which \n begins a new
/// line.
std::string label_of(StepTrace::Operation const& operation, StepTrace::Stream const& stream) {
  auto const quoted_part = [](std::string const& words) {
    std::string quoted;
    detail::JsonWriter(quoted).value(words);
    return quoted.substr(1, quoted.size() - 2);
  };
  return fmt::format(R"("{}\n{}\n{}")",
                     quoted_part(operation.name),
                     us_text(operation.duration_ns()),
                     quoted_part(stream.name));
}

/// Returns, for each operation, the next operation on the critical path, or 0 if there is none:
/// operation 0 cannot be the next one, because it has no predecessor.
std::vector<std::size_t> next_on_path(StepTrace const& trace, StepTrace::CriticalPath const& path) {
  std::vector<std::size_t> next(trace.operations().size(), 0);
  for (std::size_t i = 0; i + 1 < path.operations.size(); ++i) {
    next.at(path.operations[i]) = path.operations[i + 1];
  }
  return next;
}

std::string caption(StepTrace const& trace, StepTrace::CriticalPath const& path) {
  auto const waits = minimal_waits(trace);
  auto out = fmt::format(
      "{} operations in {}, critical path {}; {} hazards between streams, {} waits necessary, {} "
      "issued; running at once:",
      trace.operations().size(),
      us_text(trace.step_ns()),
      us_text(path.length_ns),
      waits.hazards,
      waits.necessary,
      trace.waits().issued);
  auto const shares = trace.concurrency();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    out += fmt::format("{}{}: {} %", i == 0 ? " " : ", ", i, tenths(100 * shares[i]));
  }
  return out;
}

constexpr double kWidth = 1200;
constexpr double kLeft = 160;
constexpr double kTop = 40;
constexpr double kLane = 28;
constexpr double kBar = 18;

}  // namespace

std::string StepTrace::dot(std::optional<StepTrace::CriticalPath> const& marked) const {
  auto const path = marked.value_or(critical_path());
  auto const next = next_on_path(*this, path);
  std::vector<bool> critical(operations_.size(), false);
  for (auto const i : path.operations) {
    critical.at(i) = true;
  }
  std::string out =
      "digraph step {\n  rankdir=LR;\n  node [shape=box, style=filled, fontcolor=white];\n";
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    auto const& operation = operations_[i];
    out += fmt::format("  n{} [label={}, fillcolor=\"{}\"{}];\n",
                       i,
                       label_of(operation, streams_[operation.stream]),
                       colour_of(group_of(i)),
                       critical[i] ? ", penwidth=4" : "");
  }
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    for (auto const earlier : operations_[i].after) {
      out +=
          fmt::format("  n{} -> n{}{};\n", earlier, i, next[earlier] == i ? " [style=bold]" : "");
    }
  }
  return out + "}\n";
}

std::string StepTrace::svg(std::optional<StepTrace::CriticalPath> const& marked) const {
  auto const path = marked.value_or(critical_path());
  auto const next = next_on_path(*this, path);
  double begin = operations_.empty() ? 0 : operations_.front().begin_ns;
  for (auto const& operation : operations_) {
    begin = std::min(begin, operation.begin_ns);
  }
  double const scale = (kWidth - kLeft - 10) / std::max(step_ns(), 1.0);
  auto const x = [&](double ns) { return kLeft + (ns - begin) * scale; };
  auto const y = [&](std::size_t i) {
    return kTop + kLane * static_cast<double>(operations_[i].stream);
  };
  double const height = kTop + kLane * static_cast<double>(streams_.size()) + 10;
  auto out = fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" )"
                         R"(font-family="sans-serif" font-size="11">)"
                         "\n"
                         R"(<rect width="100%" height="100%" fill="white"/>)"
                         "\n"
                         R"(<text x="10" y="20">{}</text>)"
                         "\n",
                         tenths(kWidth),
                         tenths(height),
                         detail::xml_text(caption(*this, path)));
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    out += fmt::format(R"(<text class="lane" x="10" y="{}">{}</text>)"
                       "\n",
                       tenths(kTop + kLane * static_cast<double>(i) + kBar - 5),
                       detail::xml_text(streams_[i].name));
  }
  std::vector<bool> critical(operations_.size(), false);
  for (auto const i : path.operations) {
    critical.at(i) = true;
  }
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    auto const& operation = operations_[i];
    out += fmt::format(R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}" fill="{}" )"
                       R"(stroke="{}"><title>{})"
                       "\n"
                       "{}\n"
                       "{} from {}</title></rect>\n",
                       critical[i] ? "operation critical" : "operation",
                       tenths(x(operation.begin_ns)),
                       tenths(y(i)),
                       tenths(std::max(operation.duration_ns() * scale, 0.5)),
                       tenths(kBar),
                       colour_of(group_of(i)),
                       critical[i] ? "black\" stroke-width=\"2" : "white\" stroke-width=\"0.5",
                       detail::xml_text(operation.name),
                       detail::xml_text(streams_[operation.stream].name),
                       us_text(operation.duration_ns()),
                       us_text(operation.begin_ns - begin));
  }
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    for (auto const earlier : operations_[i].after) {
      bool const on_path = next[earlier] == i;
      if (group_of(earlier) != group_of(i) || on_path) {
        out += fmt::format(R"(<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}" stroke="black" )"
                           R"(stroke-opacity="0.5" stroke-width="{}"/>)"
                           "\n",
                           on_path ? "dependency critical" : "dependency",
                           tenths(x(operations_[earlier].end_ns)),
                           tenths(y(earlier) + kBar / 2),
                           tenths(x(operations_[i].begin_ns)),
                           tenths(y(i) + kBar / 2),
                           on_path ? "2" : "0.7");
      }
    }
  }
  return out + "</svg>\n";
}

}  // namespace msstream
