// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/data/batch.hpp>
#include <msstream/data/detail/text_values.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace msstream::data {

namespace {

constexpr std::string_view kPart = "part='";  ///< in front of the part, which ends with the text

constexpr std::string_view kDealt = "dealt=";  ///< in front of the rows of each rank

/// Calls `visit(name, number)` for each number that the text of each position has, in their order.
template <class Position, class Visit>
void visit_numbers(Position& position, Visit&& visit) {
  visit("epoch", position.epoch);
  visit("window", position.window);
  visit("batch", position.batch);
  visit("batches", position.batches);
  visit("samples", position.samples);
  visit("file", position.reader.file);
  visit("offset", position.reader.offset);
  visit("line", position.reader.line);
  visit("skipped", position.skipped);
  visit("seed", position.seed);
  visit("window_rows", position.window_rows);
  visit("batch_size", position.batch_size);
  visit("columns", position.columns);
  visit("transforms", position.transforms);
}

/// Likewise for the numbers that the text has if there are files.
template <class Position, class Visit>
void visit_source(Position& position, Visit&& visit) {
  visit("files", position.source.files);
  visit("bytes", position.source.bytes);
  visit("source", position.source.hash);
}

}  // namespace

std::string to_string(LoaderPosition const& position) {
  std::string text;
  auto const add = [&](std::string_view name, auto number) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, number);
  };
  visit_numbers(position, add);
  if (position.reader.row != 0) {
    add("row", position.reader.row);
  }
  if (position.source.files != 0) {
    visit_source(position, add);
  }
  if (!position.dealt.empty()) {
    add("dealt", fmt::format("{}", fmt::join(position.dealt, ",")));
  }
  return position.part.empty() ? text : fmt::format("{} {}{}'", text, kPart, position.part);
}

LoaderPosition LoaderPosition::parse(std::string_view text) {
  LoaderPosition position;
  std::string_view rest = text;
  auto const take = [&](std::string_view name, auto& number) {
    auto const word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    bool good = word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=';
    if (good) {
      auto const value = detail::parse_number<std::remove_reference_t<decltype(number)>>(
          word.substr(name.size() + 1));
      good = value && std::cmp_greater_equal(*value, 0);
      number = value.value_or(0);
    }
    require(good,
            "position: expected {}=number, found {} in {}",
            name,
            detail::shown(word),
            detail::shown(text));
  };
  visit_numbers(position, take);
  if (rest.starts_with("row=")) {
    take("row", position.reader.row);
  }
  if (rest.starts_with("files=")) {
    visit_source(position, take);
  }
  if (rest.starts_with(kDealt)) {
    auto word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    word.remove_prefix(kDealt.size());
    for (bool more = true; more;) {
      auto const comma = word.find(',');
      auto const rows = detail::parse_number<std::int64_t>(word.substr(0, comma));
      require(rows && *rows >= 0,
              "position: expected dealt=numbers, found {} in {}",
              detail::shown(word),
              detail::shown(text));
      position.dealt.push_back(*rows);
      more = comma != std::string_view::npos;
      word.remove_prefix(more ? comma + 1 : word.size());
    }
  }
  if (rest.starts_with(kPart) && rest.size() > kPart.size() + 1 && rest.ends_with('\'')) {
    position.part = rest.substr(kPart.size(), rest.size() - kPart.size() - 1);
    rest = {};
  }
  require(rest.empty(), "position: expected nothing more, found {}", detail::shown(rest));
  return position;
}

detail::BatchPlace detail::place_of(Schema const& schema,
                                    std::vector<BatchPlace> const& places,
                                    std::string_view first,
                                    std::string_view last,
                                    ColumnPart wanted) {
  auto const begin = index_with_part(schema, first, wanted);
  auto const end = index_with_part(schema, last, wanted);
  require(begin <= end, "column '{}' is behind column '{}' in the schema", first, last);
  for (auto i = begin; i <= end; ++i) {
    auto const& column = schema.columns()[i];
    bool const is_wanted = column.is_float() == (wanted == ColumnPart::floats);
    require(!is_wanted || !column.is_jagged(),
            "column '{}' is jagged, and its values are not beside those of other columns",
            column.name);
  }
  auto const from = places[begin].first;
  return {from, places[end].first + places[end].count - from, 0};
}

detail::BatchPlace const& detail::require_groups(BatchPlace const& groups) {
  require(groups.count > 0, "batch: the rows are in no groups; expected LoaderOptions::group");
  return groups;
}

std::span<std::int64_t const> Batch::groups() const {
  auto const& place = detail::require_groups(staged_->groups);
  return {staged_->ints + place.first, place.count};
}

std::span<float const> Batch::floats(std::string_view column) const {
  auto const& place =
      staged_->places[detail::index_with_part(schema(), column, detail::ColumnPart::floats)];
  return {staged_->floats + place.first, place.count};
}

std::span<float const> Batch::floats(std::string_view first, std::string_view last) const {
  auto const place =
      detail::place_of(schema(), staged_->places, first, last, detail::ColumnPart::floats);
  return {staged_->floats + place.first, place.count};
}

std::span<std::int64_t const> Batch::ints(std::string_view column) const {
  auto const& place =
      staged_->places[detail::index_with_part(schema(), column, detail::ColumnPart::ints)];
  return {staged_->ints + place.first, place.count};
}

std::span<std::int64_t const> Batch::ints(std::string_view first, std::string_view last) const {
  auto const place =
      detail::place_of(schema(), staged_->places, first, last, detail::ColumnPart::ints);
  return {staged_->ints + place.first, place.count};
}

std::span<std::int64_t const> Batch::offsets(std::string_view column) const {
  auto const& place =
      staged_->places[detail::index_with_part(schema(), column, detail::ColumnPart::offsets)];
  return {staged_->ints + place.first_offset, static_cast<std::size_t>(shape_rows()) + 1};
}

}  // namespace msstream::data
