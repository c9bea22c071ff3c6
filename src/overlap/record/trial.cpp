// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/trial.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace msstream::overlap::record {

namespace {

/// Cuts the part before a separator off a text.
std::string_view cut(std::string_view& text, char separator) {
  auto const at = text.find(separator);
  std::string_view const part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

}  // namespace

bool Trial::leaves_out(std::string_view kind) const noexcept {
  return std::find(without.begin(), without.end(), kind) != without.end();
}

Trial Trial::from(std::string_view text, std::vector<std::string>& unknown) {
  constexpr std::array<std::string_view, 11> kKinds{"kernel",
                                                    "copy",
                                                    "fill",
                                                    "runtime",
                                                    "driver",
                                                    "launch-calls",
                                                    "sync",
                                                    "event",
                                                    "overhead",
                                                    "graph",
                                                    "stream"};
  constexpr std::pair<std::string_view, std::size_t Trial::*> kNumbers[] = {
      {"buffer-kib", &Trial::buffer_kib},
      {"device-buffer-kib", &Trial::device_buffer_kib},
      {"device-buffers", &Trial::device_buffers},
      {"flush-ms", &Trial::flush_ms},
      {"flush-period-ms", &Trial::flush_period_ms},
      {"nice", &Trial::nice}};
  constexpr std::pair<std::string_view, bool Trial::*> kFlags[] = {
      {"pinned", &Trial::pinned},
      {"one-buffer", &Trial::one_buffer},
      {"discard", &Trial::discard},
      {"pthread-ids", &Trial::pthread_ids},
      {"counter-clock", &Trial::counter_clock},
      {"hardware-trace", &Trial::hardware_trace},
      {"no-client", &Trial::no_client}};
  Trial trial;
  while (!text.empty()) {
    std::string_view const word = cut(text, ',');
    std::string_view value = word;
    std::string_view const name = cut(value, '=');
    bool known = false;
    if (name == "without") {
      known = true;
      while (!value.empty()) {
        std::string_view const kind = cut(value, '+');
        known = known && std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
        trial.without.emplace_back(kind);
      }
    }
    for (auto const& [number, member] : kNumbers) {
      auto const* const end = value.data() + value.size();
      if (name == number && std::from_chars(value.data(), end, trial.*member).ptr == end &&
          !value.empty()) {
        known = true;
      }
    }
    for (auto const& [flag, member] : kFlags) {
      if (word == flag) {
        trial.*member = known = true;
      }
    }
    if (!known) {
      unknown.emplace_back(word);
    }
  }
  return trial;
}

}  // namespace msstream::overlap::record
