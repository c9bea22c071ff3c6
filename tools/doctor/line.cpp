// SPDX-License-Identifier: Apache-2.0
#include "doctor/line.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace msstream::doctor {
namespace {

struct SectionNames {
  std::string_view name;
  std::string_view heading;
};

constexpr std::array kSections{SectionNames{"host", "Host"},
                               SectionNames{"limits", "Limits of the process"},
                               SectionNames{"environment", "Environment variables"},
                               SectionNames{"driver", "Driver and CUDA"},
                               SectionNames{"toolkit", "Toolkit for builds"},
                               SectionNames{"device", "Devices"},
                               SectionNames{"features", "Features, and what msstream does without"},
                               SectionNames{"libraries", "Libraries and tools"},
                               SectionNames{"host_measured", "Measured on the host"},
                               SectionNames{"device_measured", "Measured on the device"},
                               SectionNames{"processes", "Processes beside groups of one process"}};

SectionNames const& names_of(Section section) {
  return kSections[static_cast<std::size_t>(section)];
}

}  // namespace

std::string_view name_of(Level level) noexcept {
  constexpr std::array<std::string_view, 4> kNames{"ok", "note", "slow", "bad"};
  return kNames[static_cast<std::size_t>(level)];
}

std::string_view heading_of(Section section) noexcept {
  return names_of(section).heading;
}
std::string_view name_of(Section section) noexcept {
  return names_of(section).name;
}

std::string text_of(Quantity const& quantity) {
  auto const size = std::abs(quantity.number);
  std::string number;
  if (size >= 100 || size == std::floor(size)) {
    number = report::grouped(static_cast<std::int64_t>(std::llround(quantity.number)));
  } else {
    number = report::fixed(quantity.number, size >= 10 ? 1 : size >= 0.1 ? 2 : 4);
  }
  return quantity.unit.empty() ? number : fmt::format("{} {}", number, quantity.unit);
}

std::string bytes_text(double bytes) {
  constexpr std::array<char const*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", report::fixed(bytes, unit == 0 ? 0 : 1), kUnits[unit]);
}

Line with_quantity(Line line, Quantity quantity) {
  line.value = text_of(quantity);
  line.quantity = std::move(quantity);
  return line;
}

Line judged(Line line, Level level, std::string advice) {
  line.level = level;
  line.advice = std::move(advice);
  return line;
}

Line failed_line(Section section, std::string id, std::string thing, std::string_view message) {
  Line line{section, std::move(id), std::move(thing)};
  line.value = "failed";
  return judged(std::move(line),
                Level::bad,
                fmt::format("{}. Programs that do the same fail alike.", message));
}

Tally tally_of(Lines const& lines) noexcept {
  Tally tally;
  for (auto const& line : lines) {
    switch (line.level) {
      case Level::ok:
        ++tally.ok;
        break;
      case Level::note:
        ++tally.note;
        break;
      case Level::slow:
        ++tally.slow;
        break;
      case Level::bad:
        ++tally.bad;
        break;
    }
  }
  return tally;
}

Level worst_of(Lines const& lines) noexcept {
  auto worst = Level::ok;
  for (auto const& line : lines) {
    worst = std::max(worst, line.level);
  }
  return worst;
}

}  // namespace msstream::doctor
