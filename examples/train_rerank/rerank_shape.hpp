// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace train_rerank {

namespace ms = msstream;

/// A range of consecutive feature columns.
struct Columns {
  std::int64_t begin;
  std::int64_t end;

  [[nodiscard]] std::int64_t count() const noexcept { return end - begin; }
};

/// The shape of a model that ranks the items of a list by attention. The features of an item, and
/// those of the user who asked for the list, are divided into groups of columns. Each user group
/// with each item group is a pair, and each pair is a branch.
struct RerankShape {
  std::int64_t columns = 96;  ///< number of features of an item
  int user_groups = 2;        ///< at most `columns`; item_groups, too
  int item_groups = 3;
  std::int64_t width = 64;  ///< width of the attention in a pair
  std::int64_t tower_hidden = 64;
  int targets = 3;
  std::uint64_t seed = 1;

  [[nodiscard]] int pairs() const noexcept { return user_groups * item_groups; }
  [[nodiscard]] Columns user_columns(int group) const noexcept { return part(group, user_groups); }
  [[nodiscard]] Columns item_columns(int group) const noexcept { return part(group, item_groups); }

 private:
  [[nodiscard]] Columns part(int number, int parts) const noexcept {
    return {columns * number / parts, columns * (number + 1) / parts};
  }
};

inline std::string pair_name(int user, int item) {
  return fmt::format("user{}/item{}", user, item);
}
inline std::string target_name(int target) {
  return fmt::format("target{}", target);
}

}  // namespace train_rerank
