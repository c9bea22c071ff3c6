// SPDX-License-Identifier: Apache-2.0
#include "doctor/report.hpp"

#include "base/json_writer.hpp"
#include "overlap/show/text.hpp"

#include <msstream/base/version.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace msstream::doctor {
namespace {

using Look = overlap::TextLines::Look;

constexpr std::size_t kLevelColumns = 6;  // the longest level, and the space behind
constexpr std::size_t kMostThingColumns = 52;

Look look_of(Level level) {
  constexpr std::array kLooks{Look::good, Look::neutral, Look::warning, Look::bad};
  return kLooks[static_cast<std::size_t>(level)];
}

/// Returns a text with as many spaces behind it as it needs to have `columns` characters.
std::string padded(std::string_view text, std::size_t columns) {
  auto const used = overlap::width_of(text);
  return std::string(text).append(used < columns ? columns - used : 0, ' ');
}

/// Returns the width of the column of things in a section.
std::size_t thing_columns(Lines const& lines, Section section) {
  std::size_t columns = 0;
  for (auto const& line : lines) {
    if (line.section == section) {
      columns = std::max(columns, overlap::width_of(overlap::printable(line.thing)));
    }
  }
  return std::min(columns, kMostThingColumns);
}

constexpr std::array kOrder{Section::host,
                            Section::limits,
                            Section::environment,
                            Section::driver,
                            Section::toolkit,
                            Section::device,
                            Section::features,
                            Section::libraries,
                            Section::host_measured,
                            Section::device_measured,
                            Section::processes};

}  // namespace

char const* version() noexcept {
  return msstream::version().data();
}

std::string summary_text(Lines const& lines) {
  auto const tally = tally_of(lines);
  return fmt::format("{} ok, {} {}, {} slow, {} bad",
                     tally.ok,
                     tally.note,
                     tally.note == 1 ? "note" : "notes",
                     tally.slow,
                     tally.bad);
}

std::string terminal_text(Report const& report, overlap::TextStyle const& style) {
  overlap::TextLines out(style);
  out.line(out.in(Look::faint,
                  fmt::format("msstream-doctor {}, built for {}",
                              version(),
                              report.is_cuda_build ? "CUDA and the host" : "the host alone")));
  for (auto const section : kOrder) {
    bool has_heading = false;
    auto const columns = thing_columns(report.lines, section);
    for (auto const& line : report.lines) {
      if (line.section != section) {
        continue;
      }
      if (!has_heading) {
        out.line();
        out.line(out.in(Look::title, heading_of(section)));
        has_heading = true;
      }
      auto const level = padded(name_of(line.level), kLevelColumns);
      auto const lead = "  " + out.in(look_of(line.level), level) +
                        padded(overlap::printable(line.thing), columns) + "  ";
      // The width of the lead without its colours decides where the value's lines begin.
      auto const indent = 2 + kLevelColumns + columns + 2;
      auto const room = style.width > indent + 20 ? style.width - indent : 20;
      bool is_first = true;
      for (auto const& part : overlap::wrapped(overlap::printable(line.value), room)) {
        out.line((is_first ? lead : std::string(indent, ' ')) + part);
        is_first = false;
      }
      if (is_first) {
        out.line(lead);
      }
      if (!line.advice.empty()) {
        out.paragraph(
            std::string(2 + kLevelColumns, ' '), overlap::printable(line.advice), Look::faint);
      }
    }
  }
  out.line();
  out.line(out.in(look_of(worst_of(report.lines)), summary_text(report.lines)));
  return out.take();
}

std::string json_text(Report const& report) {
  using Layout = detail::JsonWriter::Layout;
  std::string out;
  detail::JsonWriter json(out);
  auto const tally = tally_of(report.lines);
  json.begin_object(Layout::lines);
  json.member("schema", "msstream-doctor-report");
  json.member("version", 1);
  json.member("msstream", version());
  json.member("build", report.is_cuda_build ? "cuda" : "host");
  json.member("quick", report.is_quick);
  if (report.device) {
    json.member("device", *report.device);
  }
  json.key("summary");
  json.begin_object();
  json.member("ok", tally.ok);
  json.member("note", tally.note);
  json.member("slow", tally.slow);
  json.member("bad", tally.bad);
  json.end_object();
  json.key("lines");
  json.begin_array(Layout::lines);
  for (auto const& line : report.lines) {
    json.begin_object();
    json.member("section", name_of(line.section));
    json.member("id", line.id);
    json.member("level", name_of(line.level));
    json.member("thing", line.thing);
    json.member("value", line.value);
    if (line.quantity) {
      json.member("number", line.quantity->number);
      json.member("unit", line.quantity->unit);
    }
    if (line.device) {
      json.member("device", *line.device);
    }
    json.member("advice", line.advice);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return out + "\n";
}

}  // namespace msstream::doctor
