// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/settings.hpp"

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
  settings.trial_text = text_of(variable::kTrial);
  settings.trial = Trial::from(settings.trial_text, settings.unknown_words);
  return settings;
}

}  // namespace msstream::overlap::record
