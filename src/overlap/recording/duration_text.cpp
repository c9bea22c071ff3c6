// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/duration_text.hpp"

#include <msstream/report/text.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>

namespace msstream::overlap {

std::string duration_text(Ns duration) {
  static constexpr std::array kUnits{"ns", "µs", "ms", "s"};
  if (std::abs(duration) < 1000) {
    return fmt::format("{} ns", duration);
  }
  auto value = static_cast<double>(duration);
  std::size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  double const size = std::abs(value);
  int const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{} {}", report::fixed(value, digits), kUnits.at(unit));
}

std::string ms_text(Ns time) {
  constexpr Ns ms = 1'000'000;
  auto text = fmt::format("{}{}.{:06}",
                          time < 0 ? "-" : "",
                          time < 0 ? -(time / ms) : time / ms,
                          time < 0 ? -(time % ms) : time % ms);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string interval_text(Interval const& interval) {
  return fmt::format("{}ms:{}ms", ms_text(interval.begin), ms_text(interval.end));
}

std::string share_text(Ns part, Ns whole) {
  double const percent =
      whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  return report::fixed(percent, percent < 1 ? 1 : 0) + "%";
}

std::string count_text(std::uint64_t count, std::string_view one, std::string_view several) {
  return fmt::format(
      "{} {}", report::grouped(static_cast<std::int64_t>(count)), count == 1 ? one : several);
}

}  // namespace msstream::overlap
