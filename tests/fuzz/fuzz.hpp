// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

/// What a fuzz target defines: runs the code under test on one input. `bytes` may be null when
/// `count` is 0.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count);

namespace msstream::fuzz {

/// Ends the process, as a sanitizer would, unless `holds`: the fuzzer keeps the input that did it.
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

/// The text with every `from` replaced.
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
