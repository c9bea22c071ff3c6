// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace msstream::overlap::record {

/// Appends JSON to a text. The caller writes braces and commas.
class JsonText {
 public:
  explicit JsonText(std::string& out) : out_(&out) {}

  /// Appends text as it is.
  JsonText& raw(std::string_view text) {
    out_->append(text);
    return *this;
  }
  JsonText& number(std::signed_integral auto value) { return signed_number(value); }
  JsonText& number(std::unsigned_integral auto value) { return unsigned_number(value); }
  /// Appends ns as µs with three digits after the point.
  JsonText& microseconds(std::int64_t ns);
  /// Appends a number with at most six digits after the point; 0 if it is not finite.
  JsonText& decimal(double value);
  /// Appends a quoted text. Bytes that are no UTF-8 become U+FFFD.
  JsonText& quoted(std::string_view text);

 private:
  JsonText& signed_number(std::int64_t value);
  JsonText& unsigned_number(std::uint64_t value);

  std::string* out_;
};

}  // namespace msstream::overlap::record
