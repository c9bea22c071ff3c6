// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace msstream::overlap::record {

namespace {

std::string text_of(char const* variable) {
  char const* const value = std::getenv(variable);
  return value == nullptr ? std::string() : std::string(value);
}

std::int64_t number_of(char const* variable, std::int64_t otherwise) {
  std::string const text = text_of(variable);
  std::int64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool const whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 0 ? number : otherwise;
}

}  // namespace

bool Settings::leaves_out(std::string_view kind) const noexcept {
  return std::find(without.begin(), without.end(), kind) != without.end();
}

Settings Settings::from_environment() {
  Settings settings;
  settings.folder = text_of(variable::kFolder);
  settings.plain = number_of(variable::kPlain, 0) != 0;
  settings.skip_ms = number_of(variable::kSkip, settings.skip_ms);
  settings.duration_ms = number_of(variable::kDuration, settings.duration_ms);
  settings.range = text_of(variable::kRange);
  settings.graph_nodes = number_of(variable::kGraphNodes, 0) != 0;
  settings.memory_mib = static_cast<std::size_t>(
      number_of(variable::kMemory, static_cast<std::int64_t>(settings.memory_mib)));
  settings.cupti = text_of(variable::kCupti);
  std::string const without = text_of(variable::kWithout);
  for (std::size_t begin = 0; begin < without.size();) {
    std::size_t const end = std::min(without.find('+', begin), without.size());
    settings.without.push_back(without.substr(begin, end - begin));
    begin = end + 1;
  }
  return settings;
}

}  // namespace msstream::overlap::record
