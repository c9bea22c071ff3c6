// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/base/text.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace msstream {

/// The extents of a dense row-major array of up to four dimensions; `{}` is a scalar with one
/// element.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span<std::int64_t const>(extents.begin(), extents.size())) {}
  explicit Shape(std::span<std::int64_t const> extents) {
    require(extents.size() <= kMaxRank,
            "shape: rank ",
            extents.size(),
            " is above the maximum of ",
            kMaxRank);
    for (auto const extent : extents) {
      append(extent);
    }
  }

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }

  /// Returns the extent of a dimension. Throws std::invalid_argument if `dimension` is not below
  /// the rank.
  [[nodiscard]] std::int64_t operator[](std::size_t dimension) const {
    require(dimension < rank_, "shape ", *this, " has no dimension ", dimension);
    return extents_[dimension];
  }

  /// Returns a copy of the shape with `extent` as the first extent. Throws std::invalid_argument
  /// for a scalar.
  [[nodiscard]] Shape with_first(std::int64_t extent) const {
    require(rank_ > 0, "shape []: a scalar has no first dimension");
    Shape changed{extent};
    for (std::size_t i = 1; i < rank_; ++i) {
      changed.append(extents_[i]);
    }
    return changed;
  }

  /// Returns the shape as text, such as `[2, 3]`, or `[]` for a scalar.
  [[nodiscard]] std::string describe() const {
    std::string out = "[";
    for (std::size_t i = 0; i < rank_; ++i) {
      out += text(i == 0 ? "" : ", ", extents_[i]);
    }
    return out + "]";
  }

  friend bool operator==(Shape const&, Shape const&) = default;

 private:
  void append(std::int64_t extent) {
    require(extent >= 0, "shape: extent ", extent, " of dimension ", rank_, " is negative");
    std::int64_t count = 0;
    bool const fits = !__builtin_mul_overflow(count_, extent, &count);
    require(fits, "shape: the number of elements does not fit in 63 bits");
    extents_[rank_++] = extent;
    count_ = count;
  }

  std::array<std::int64_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
  std::int64_t count_ = 1;
};

}  // namespace msstream
