// SPDX-License-Identifier: Apache-2.0
#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <iterator>

namespace msstream::report {

std::string fixed(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

std::string short_number(double value) {
  double const size = std::abs(value);
  bool const is_plain = value == 0.0 || !std::isfinite(value) || (size >= 1e-3 && size < 1e6);
  return is_plain ? fixed(value, 4) : fmt::format("{:.4g}", value);
}

std::string grouped(std::int64_t number) {
  std::string out = std::to_string(number);
  std::ptrdiff_t const first_digit = number < 0 ? 1 : 0;
  for (auto place = std::ssize(out) - 3; place > first_digit; place -= 3) {
    out.insert(static_cast<std::size_t>(place), 1, ',');
  }
  return out;
}

std::string clock_text(std::chrono::seconds duration) {
  std::int64_t const seconds = duration.count();
  if (seconds >= 3600) {
    return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  }
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

}  // namespace msstream::report
