// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace msstream::datasets {

/// Lists of items to be ranked, one list per query, all in memory: 4 bytes for each feature,
/// whether or not the data has it.
struct RankLists {
  std::int64_t columns = 0;              ///< number of features of an item
  std::vector<std::int64_t> offsets{0};  ///< [queries + 1]: where each query's items begin
  std::vector<float> features;           ///< [items][columns]; 0 where the data has none
  std::vector<float> grades;             ///< [items]: relevance of each item, from 0

  [[nodiscard]] std::int64_t queries() const noexcept {
    return static_cast<std::int64_t>(offsets.size()) - 1;
  }
  [[nodiscard]] std::int64_t items() const noexcept { return offsets.back(); }
  /// Returns the number of items of the longest list.
  [[nodiscard]] std::int64_t longest() const noexcept;
};

/// Returns the path of the file with the lengths of the lists: `<path>.query`.
[[nodiscard]] std::filesystem::path queries_path(std::filesystem::path path);

/// Reads ranking data by data::LibSvmReader: one line per item, `grade index:value …`, with indices
/// that count from 1 and ascend. A second file, `<path>.query`, has one line per query with the
/// number of items in its list.
///
/// `columns` is the largest index that is expected; 0 takes the largest one found. Unexpected
/// content is a DataError that names the file, and the line or the number of the item or list.
/// Throws std::invalid_argument for negative `columns`.
[[nodiscard]] RankLists read_rank_lists(std::filesystem::path const& path,
                                        std::int64_t columns = 0);

/// Returns the lists with the first `most` items of each. Throws std::invalid_argument unless
/// `most` is positive.
[[nodiscard]] RankLists cut(RankLists const& lists, std::int64_t most);

/// Appends the lists in `more` to those in `lists`. Throws std::invalid_argument if the numbers of
/// columns differ.
void append(RankLists& lists, RankLists const& more);

struct GeneratedLists {
  std::int64_t queries = 1'000;
  std::int64_t longest = 50;  ///< lengths are uniform in [1, longest]
  std::int64_t columns = 96;
  std::uint64_t seed = 1;
};

/// Returns lists with a relation that a model can learn. Each query has a taste, which is a number
/// for each column. The features of its items gather around the taste, and the grade of an item, 0
/// to 4, grows with the product of its features and the taste. Equal bits need the same libm.
/// Throws std::invalid_argument unless all sizes are positive.
[[nodiscard]] RankLists generate_rank_lists(GeneratedLists const& options);

}  // namespace msstream::datasets
