// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>
#include <msstream/base/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace msstream {

class Shape;

namespace detail {

[[noreturn]] void throw_rank_too_high(std::size_t rank);
[[noreturn]] void throw_no_dimension(Shape const& shape, std::size_t dimension);
[[noreturn]] void throw_negative_extent(std::int64_t extent, std::size_t dimension);

}  // namespace detail

/// The extents of a dense row-major array of up to four dimensions; `{}` is a scalar with one
/// element.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 4;  ///< the most dimensions

  Shape() = default;
  /// Makes the shape with these dimensions, each 0 or more; without any, that of a scalar. Throws
  /// std::invalid_argument for more than kMaxRank dimensions, and for a negative one.
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span<std::int64_t const>(extents.begin(), extents.size())) {}
  explicit Shape(std::span<std::int64_t const> extents) {
    if (extents.size() > kMaxRank) [[unlikely]] {
      detail::throw_rank_too_high(extents.size());
    }
    for (auto const extent : extents) {
      append(extent);
    }
  }

  /// Returns the number of dimensions.
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  /// Returns the number of elements; 1 for a scalar.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }

  /// Returns the extent of a dimension. Throws std::invalid_argument if `dimension` is not below
  /// the rank.
  [[nodiscard]] std::int64_t operator[](std::size_t dimension) const {
    if (dimension >= rank_) [[unlikely]] {
      detail::throw_no_dimension(*this, dimension);
    }
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

  friend bool operator==(Shape const&, Shape const&) = default;

 private:
  void append(std::int64_t extent) {
    if (extent < 0) [[unlikely]] {
      detail::throw_negative_extent(extent, rank_);
    }
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

/// Returns a text such as `[2, 3]`, or `[]` for a scalar.
[[nodiscard]] std::string to_string(Shape const& shape);

}  // namespace msstream
