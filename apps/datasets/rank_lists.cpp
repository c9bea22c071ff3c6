// SPDX-License-Identifier: Apache-2.0
#include "datasets/rank_lists.hpp"

#include "datasets/counter_random.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/byte_source.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/detail/line_chunks.hpp>
#include <msstream/data/detail/text_values.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::datasets {

namespace {

using data::detail::LineChunks;
using data::detail::parse_number;
using data::detail::shown;
using data::detail::take_line;

/// Calls `use(line, number)` for each line that is not blank. Throws DataError if reading the bytes
/// fails.
template <class Use>
void for_each_line(std::filesystem::path const& path, Use&& use) {
  constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;
  LineChunks chunks(data::open_bytes(path), path.string(), kChunkBytes);
  while (auto const chunk = chunks.next()) {
    std::string_view lines = chunk->lines;
    for (std::int64_t number = chunk->first_line; !lines.empty(); ++number) {
      auto const line = take_line(lines);
      if (!line.empty()) {
        use(line, number);
      }
    }
  }
}

/// Removes the next word from the start of `line` and returns it; empty at the end.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  auto const word = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(word.size());
  return word;
}

/// A parser for lines of a LibSVM file, each of which is an item with those features that it has.
class ItemParser {
 public:
  ItemParser(std::string file, std::int64_t columns) : file_(std::move(file)), columns_(columns) {}

  void parse(std::string_view line, std::int64_t number) {
    auto const grade_text = take_word(line);
    auto const grade = parse_number<float>(grade_text);
    if (!grade || *grade < 0.0F) {
      fail(number, "a grade of 0 or more", grade_text);
    }
    grades_.push_back(*grade);
    std::int64_t last = 0;
    for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
      last = parse_feature(word, number, last);
    }
    ends_.push_back(features_.size());
  }

  /// Returns the parsed items as lists whose offsets are not set yet, and whose missing features
  /// are 0.
  [[nodiscard]] RankLists take() {
    RankLists lists;
    lists.columns = columns_ > 0 ? columns_ : largest_;
    lists.grades = std::move(grades_);
    lists.features.resize(ends_.size() * static_cast<std::size_t>(lists.columns));
    std::size_t feature = 0;
    for (std::size_t item = 0; item < ends_.size(); ++item) {
      auto* const row = lists.features.data() + item * static_cast<std::size_t>(lists.columns);
      for (; feature < ends_[item]; ++feature) {
        row[features_[feature].first - 1] = features_[feature].second;
      }
    }
    return lists;
  }

 private:
  std::int64_t parse_feature(std::string_view word, std::int64_t number, std::int64_t last) {
    auto const colon = word.find(':');
    auto const index = parse_number<std::int64_t>(word.substr(0, colon));
    auto const value = colon == std::string_view::npos
                           ? std::nullopt
                           : parse_number<float>(word.substr(colon + 1));
    if (!index || !value) {
      fail(number, "index:value", word);
    }
    if (*index <= last) {
      fail(number, fmt::format("an index above {}", last), word);
    }
    auto const most = columns_ > 0 ? columns_ : kMostColumns;
    if (*index > most) {
      fail(number, fmt::format("an index of at most {}", most), word);
    }
    largest_ = std::max(largest_, *index);
    if (std::abs(*value) > kLargestFeature) {
      fail(number, "a feature from -1e12 to 1e12", word);
    }
    features_.emplace_back(*index, *value);
    return *index;
  }
  [[noreturn]] void fail(std::int64_t number,
                         std::string_view expected,
                         std::string_view found) const {
    throw data::DataError(
        fmt::format("{}:{}: expected {}, found {}", file_, number, expected, shown(found)));
  }

  /// The largest accepted index of a feature, so that a typing error does not allocate all memory.
  static constexpr std::int64_t kMostColumns = 1'000'000;
  /// The largest accepted value of a feature: squares and sums of larger ones would be infinite in
  /// float32.
  static constexpr float kLargestFeature = 1e12F;

  std::string file_;
  std::int64_t columns_;  ///< number of features of an item; 0: the largest index found
  std::int64_t largest_ = 0;
  std::vector<float> grades_;
  std::vector<std::pair<std::int64_t, float>> features_;  ///< as (index, value), of all items
  std::vector<std::size_t> ends_;                         ///< end of each item's features
};

std::vector<std::int64_t> read_offsets(std::filesystem::path const& path, std::int64_t items) {
  std::vector<std::int64_t> offsets{0};
  for_each_line(path, [&](std::string_view line, std::int64_t number) {
    auto const length = parse_number<std::int64_t>(line);
    auto const left = items - offsets.back();
    if (!length || *length < 1 || *length > left) {
      throw data::DataError(fmt::format(
          "{}:{}: expected the length of a list, from 1 to the {} items that are left, found {}",
          path.string(),
          number,
          left,
          shown(line)));
    }
    offsets.push_back(offsets.back() + *length);
  });
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
  ItemParser items(path.string(), columns);
  for_each_line(path,
                [&](std::string_view line, std::int64_t number) { items.parse(line, number); });
  auto lists = items.take();
  if (lists.grades.empty() || lists.columns == 0) {
    throw data::DataError(
        fmt::format("{}: expected items with features, found none", path.string()));
  }
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
