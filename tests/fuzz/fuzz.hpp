// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

/// Runs the code under test on one input. Every fuzz target defines it. `bytes` may be null if
/// `count` is 0.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count);

namespace msstream::fuzz {

/// Unless `holds`, ends the process as a sanitizer would, so that the fuzzer keeps the input.
template <class... Pieces>
void expect(bool holds, Pieces const&... pieces) {
  if (!holds) {
    std::fputs(text("\nexpectation failed: ", pieces..., "\n").c_str(), stderr);
    std::abort();
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
