// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace msstream::support {

/// Items to be ranked, a list a query, all in memory: 4 bytes a feature, there or not.
struct RankLists {
  std::int64_t columns = 0;              ///< features of an item
  std::vector<std::int64_t> offsets{0};  ///< [queries + 1]: where each query's items begin
  std::vector<float> features;           ///< [items][columns]; 0 where the data has none
  std::vector<float> grades;             ///< [items]: how well an item answers, from 0

  [[nodiscard]] std::int64_t queries() const noexcept {
    return static_cast<std::int64_t>(offsets.size()) - 1;
  }
  [[nodiscard]] std::int64_t items() const noexcept { return offsets.back(); }
  /// The number of items of the longest list.
  [[nodiscard]] std::int64_t longest() const noexcept;
};

/// Where the lengths of the lists of such a file are: `<path>.query`.
[[nodiscard]] std::filesystem::path queries_path(std::filesystem::path path);

/// Reads ranking data in the form of LibSVM: a line an item, `grade index:value …`, with indices
/// that count from 1 and ascend; and beside it `<path>.query`, a line a query, which says how many
/// of the lines are its list. Either may be gzip-compressed. Lines may end with LF or CRLF; blank
/// ones do not count.
///
/// `columns` is the largest index that is expected; with 0 it is the largest one found. Everything
/// unexpected is a DataError, `file:line: expected …, found '…'`. Throws std::invalid_argument for
/// negative `columns`.
[[nodiscard]] RankLists read_rank_lists(std::filesystem::path const& path,
                                        std::int64_t columns = 0);

/// The lists, of each the first `most` items. Throws std::invalid_argument unless `most` is
/// positive.
[[nodiscard]] RankLists cut(RankLists const& lists, std::int64_t most);

/// Adds lists behind those that are there. Throws std::invalid_argument for other columns.
void append(RankLists& lists, RankLists const& more);

struct GeneratedLists {
  std::int64_t queries = 1'000;
  std::int64_t longest = 50;  ///< lengths are uniform in [1, longest]
  std::int64_t columns = 96;
  std::uint64_t seed = 1;
};

/// Lists with a truth to be found: each query has a taste, a number a column, which its items'
/// features gather around, and an item's grade in 0 to 4 grows with the product of its features
/// and the taste. The same bits need the same libm. Throws std::invalid_argument unless all sizes
/// are positive.
[[nodiscard]] RankLists generate_rank_lists(GeneratedLists const& options);

}  // namespace msstream::support
