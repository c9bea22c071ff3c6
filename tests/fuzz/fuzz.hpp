// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

/// Runs a fuzz target on one input. libFuzzer requires this function of every target. `bytes` may
/// be null if `count` is 0.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count);

namespace msstream::fuzz {

/// If `holds` is false, ends the process as a sanitizer would, so that the fuzzer saves the input.
inline void expect(bool holds, std::string_view message) {
  if (!holds) {
    fmt::print(stderr, "\nexpectation failed: {}\n", message);
    std::abort();
  }
}
template <class First, class... Rest>
void expect(bool holds, fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  if (!holds) {
    expect(false, fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
}

[[nodiscard]] inline std::string_view as_text(std::uint8_t const* bytes, std::size_t count) {
  return count == 0 ? std::string_view()
                    : std::string_view(reinterpret_cast<char const*>(bytes), count);
}

/// Returns `value` with every `from` replaced by `to`.
[[nodiscard]] inline std::string replaced(std::string_view value,
                                          std::string_view from,
                                          std::string_view to) {
  std::string out;
  for (std::size_t at = value.find(from); at != std::string_view::npos; at = value.find(from)) {
    out.append(value.substr(0, at)).append(to);
    value.remove_prefix(at + from.size());
  }
  return out.append(value);
}

}  // namespace msstream::fuzz
