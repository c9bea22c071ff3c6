// SPDX-License-Identifier: Apache-2.0
#include "datasets/rank_lists.hpp"

#include "datasets/counter_random.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/libsvm_reader.hpp>
#include <msstream/data/text_reader.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

namespace msstream::datasets {

namespace {

/// The largest accepted number of features, so that a typing error does not allocate all memory.
constexpr std::int64_t kMostColumns = 1'000'000;
/// The largest accepted value of a feature: squares and sums of larger ones would be infinite in
/// float32.
constexpr float kLargestFeature = 1e12F;

/// Returns all rows of a reader.
std::vector<data::Chunk> all_rows(data::Reader& reader) {
  std::vector<data::Chunk> chunks;
  for (data::Chunk chunk(reader.schema()); reader.next(chunk);) {
    chunks.push_back(std::exchange(chunk, data::Chunk(reader.schema())));
  }
  return chunks;
}

/// Returns the items of the rows as lists whose offsets are not set yet, and whose missing features
/// are 0.
RankLists items_of(std::vector<data::Chunk> const& chunks,
                   std::int64_t columns,
                   std::string const& file) {
  RankLists lists;
  for (auto const& chunk : chunks) {
    for (float const grade : chunk.floats("label")) {
      lists.grades.push_back(grade);
      if (grade < 0.0F) {
        throw data::DataError(fmt::format("{}: item {}: expected a grade of 0 or more, found {}",
                                          file,
                                          lists.grades.size(),
                                          grade));
      }
    }
    for (auto const index : chunk.ints("index")) {
      lists.columns = std::max(lists.columns, index + 1);
    }
  }
  lists.columns = columns > 0 ? columns : lists.columns;
  if (lists.grades.empty() || lists.columns == 0) {
    throw data::DataError(fmt::format("{}: expected items with features, found none", file));
  }
  auto const width = static_cast<std::size_t>(lists.columns);
  lists.features.resize(lists.grades.size() * width);
  std::size_t item = 0;
  for (auto const& chunk : chunks) {
    auto const& offsets = chunk.offsets("value");
    for (std::size_t row = 0; row + 1 < offsets.size(); ++row, ++item) {
      for (auto k = static_cast<std::size_t>(offsets[row]);
           k < static_cast<std::size_t>(offsets[row + 1]);
           ++k) {
        auto const value = chunk.floats("value")[k];
        if (std::abs(value) > kLargestFeature) {
          throw data::DataError(
              fmt::format("{}: item {}: expected a feature from -1e12 to 1e12, found {}",
                          file,
                          item + 1,
                          value));
        }
        lists.features[item * width + static_cast<std::size_t>(chunk.ints("index")[k])] = value;
      }
    }
  }
  return lists;
}

std::vector<std::int64_t> read_offsets(std::filesystem::path const& path, std::int64_t items) {
  data::TsvReader reader(path,
                         {.columns = {{.name = "length", .type = data::ColumnType::int64}},
                          .header = false,
                          .names = {"length"}});
  std::vector<std::int64_t> offsets{0};
  for (auto const& chunk : all_rows(reader)) {
    for (auto const length : chunk.ints("length")) {
      auto const left = items - offsets.back();
      if (length < 1 || length > left) {
        throw data::DataError(fmt::format(
            "{}: list {}: expected a length from 1 to the {} items that are left, found {}",
            path.string(),
            offsets.size(),
            left,
            length));
      }
      offsets.push_back(offsets.back() + length);
    }
  }
  if (offsets.back() != items) {
    throw data::DataError(fmt::format(
        "{}: expected lists of {} items together, found {}", path.string(), items, offsets.back()));
  }
  return offsets;
}

}  // namespace

std::int64_t RankLists::longest() const noexcept {
  std::int64_t most = 0;
  for (std::size_t query = 1; query < offsets.size(); ++query) {
    most = std::max(most, offsets[query] - offsets[query - 1]);
  }
  return most;
}

std::filesystem::path queries_path(std::filesystem::path path) {
  path += ".query";
  return path;
}

RankLists read_rank_lists(std::filesystem::path const& path, std::int64_t columns) {
  require(columns >= 0, "columns: expected 0 or more, found {}", columns);
  data::LibSvmReader reader(path, {.features = columns > 0 ? columns : kMostColumns});
  auto lists = items_of(all_rows(reader), columns, path.string());
  lists.offsets = read_offsets(queries_path(path), static_cast<std::int64_t>(lists.grades.size()));
  return lists;
}

RankLists cut(RankLists const& lists, std::int64_t most) {
  require(most > 0, "lists: expected at least 1 item, found {}", most);
  RankLists shorter;
  shorter.columns = lists.columns;
  for (std::size_t query = 1; query < lists.offsets.size(); ++query) {
    auto const begin = lists.offsets[query - 1];
    auto const end = std::min(lists.offsets[query], begin + most);
    auto const features = lists.features.begin();
    shorter.features.insert(
        shorter.features.end(), features + begin * lists.columns, features + end * lists.columns);
    auto const grades = lists.grades.begin();
    shorter.grades.insert(shorter.grades.end(), grades + begin, grades + end);
    shorter.offsets.push_back(shorter.offsets.back() + end - begin);
  }
  return shorter;
}

void append(RankLists& lists, RankLists const& more) {
  require(lists.columns == more.columns,
          "lists of {} columns behind lists of {}",
          more.columns,
          lists.columns);
  auto const items = lists.items();
  for (std::size_t query = 1; query < more.offsets.size(); ++query) {
    lists.offsets.push_back(items + more.offsets[query]);
  }
  lists.features.insert(lists.features.end(), more.features.begin(), more.features.end());
  lists.grades.insert(lists.grades.end(), more.grades.begin(), more.grades.end());
}

RankLists generate_rank_lists(GeneratedLists const& options) {
  require(
      options.queries > 0 && options.longest > 0 && options.columns > 0,
      "generated lists: expected positive sizes, found {} queries of up to {} items of {} columns",
      options.queries,
      options.longest,
      options.columns);
  RankLists lists;
  lists.columns = options.columns;
  std::vector<double> taste(static_cast<std::size_t>(options.columns));
  for (std::int64_t query = 0; query < options.queries; ++query) {
    std::uint64_t draw = 0;
    auto const bits = [&] {
      return random_bits(options.seed, static_cast<std::uint64_t>(query), draw++);
    };
    auto const normal = [&] {
      auto const first = bits();
      return normal_of(first, bits());
    };
    auto const length =
        1 + static_cast<std::int64_t>(uniform_of(bits()) * static_cast<double>(options.longest));
    std::ranges::generate(taste, normal);
    for (std::int64_t item = 0; item < length; ++item) {
      double product = 0;
      for (double const liking : taste) {
        double const own = normal();
        lists.features.push_back(static_cast<float>(0.5 * liking + own));
        product += liking * own;
      }
      // Gives all grades from 0 to 4, since the score is about standard normal.
      double const score = product / std::sqrt(static_cast<double>(options.columns));
      lists.grades.push_back(static_cast<float>(std::clamp(std::floor(2.0 + score), 0.0, 4.0)));
    }
    lists.offsets.push_back(lists.offsets.back() + length);
  }
  return lists;
}

}  // namespace msstream::datasets
