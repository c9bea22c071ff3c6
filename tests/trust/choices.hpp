// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace msstream::testing {

/// The source of a random program's choices: a random number generator with a seed, or the input of
/// a fuzzer, which is finite.
class Choices {
 public:
  explicit Choices(std::uint32_t seed) : random_(seed) {}
  explicit Choices(std::span<std::uint8_t const> bytes) : bytes_(bytes), from_bytes_(true) {}

  /// Returns a number below `limit`, or 0 if the fuzzer's input is used up.
  std::size_t below(std::size_t limit) {
    if (!from_bytes_) {
      return random_() % limit;
    }
    if (next_ == bytes_.size()) {
      return 0;
    }
    return bytes_[next_++] % limit;
  }
  [[nodiscard]] bool exhausted() const noexcept { return from_bytes_ && next_ == bytes_.size(); }
  template <class Container>
  auto& any_of(Container& container) {
    return container[below(container.size())];
  }

 private:
  std::minstd_rand random_;
  std::span<std::uint8_t const> bytes_;
  std::size_t next_ = 0;
  bool from_bytes_ = false;
};

}  // namespace msstream::testing
