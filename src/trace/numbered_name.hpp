// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msstream::detail {

/// A name that no other living object of this class has: the text that it is made of, or, while
/// others have that, the text with the smallest free number behind it, as in "group 0 (2)".
/// Thread-safe.
class NumberedName {
 public:
  explicit NumberedName(std::string const& text);
  NumberedName(NumberedName const&) = delete;
  NumberedName& operator=(NumberedName const&) = delete;
  ~NumberedName();

  [[nodiscard]] std::string const& text() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace msstream::detail
