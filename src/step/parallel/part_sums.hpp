// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/elementwise.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <source_location>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Adds parts, as many as a power of two, in the order of a balanced binary tree: of four, (0 + 1)
/// + (2 + 3). So a rank that adds some of them, and then the ranks that add the ranks' sums, get
/// the bits of one that adds all. Keeps a sum for each level of the tree.
class PartSums {
 public:
  void add(Floats part, std::source_location issued_at) {
    int level = 0;
    for (; !sums_.empty() && sums_.back().level == level; ++level) {
      part = ops::detail::add(std::vector{sums_.back().sum, part}, issued_at);
      sums_.pop_back();
    }
    sums_.push_back({level, std::move(part)});
  }
  /// Returns the sum of all parts so far, as many as a power of two, and forgets them.
  [[nodiscard]] Floats take() {
    auto sum = std::move(sums_.back().sum);
    sums_.clear();
    return sum;
  }

 private:
  struct Sum {
    int level;  ///< it has 2^level parts
    Floats sum;
  };
  std::vector<Sum> sums_;  ///< of consecutive parts, oldest first
};

}  // namespace msstream::detail
