// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/format.hpp>
#include <msstream/base/shape.hpp>

#include <fmt/core.h>

#include <stdexcept>

namespace msstream {

std::string to_string(Shape const& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  return out + "]";
}

namespace detail {

void throw_rank_too_high(std::size_t rank) {
  throw std::invalid_argument(
      fmt::format("shape: rank {} is above the maximum of {}", rank, std::size_t{Shape::kMaxRank}));
}

void throw_no_dimension(Shape const& shape, std::size_t dimension) {
  throw std::invalid_argument(fmt::format("shape {} has no dimension {}", shape, dimension));
}

void throw_negative_extent(std::int64_t extent, std::size_t dimension) {
  throw std::invalid_argument(
      fmt::format("shape: extent {} of dimension {} is negative", extent, dimension));
}

}  // namespace detail
}  // namespace msstream
