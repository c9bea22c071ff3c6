// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// Numbers of the page's data, column by column, as bytes: unsigned numbers in groups of seven
/// bits, the lowest first (LEB128), signed ones as 2n or -2n-1. Neighbours in a column are alike,
/// so that most numbers take one to three bytes.
class PageColumns {
 public:
  /// Begins a column, which ends where the next one begins.
  void begin(char const* name) {
    end();
    names_.emplace_back(name, 0);
    started_ = bytes_.size();
  }
  void put(std::uint64_t number) {
    for (; number >= 0x80; number >>= 7U) {
      bytes_ += static_cast<char>(static_cast<unsigned char>(number | 0x80U));
    }
    bytes_ += static_cast<char>(static_cast<unsigned char>(number));
  }
  void put_signed(std::int64_t number) {
    auto const bits = static_cast<std::uint64_t>(number);
    put(number < 0 ? ~(bits << 1U) : bits << 1U);
  }

  /// Returns the columns' names and lengths in bytes, in order.
  [[nodiscard]] std::vector<std::pair<char const*, std::size_t>> const& columns() {
    end();
    return names_;
  }
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }

 private:
  void end() {
    if (!names_.empty()) {
      names_.back().second = bytes_.size() - started_;
    }
  }

  std::string bytes_;
  std::vector<std::pair<char const*, std::size_t>> names_;
  std::size_t started_ = 0;
};

/// Appends bytes to a text in base64, padded.
void append_base64(std::string& out, std::string_view bytes);

}  // namespace msstream::overlap
