// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/data/batch.hpp>
#include <msstream/data/detail/text_values.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace msstream::data {

namespace {

/// Calls `visit(name, number)` for each number of a position, in the order of its text.
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
  visit("batch_rows", position.batch_rows);
}

enum class PartOfBatch : std::uint8_t { floats, ints, offsets };

detail::BatchPlace const& place_of(detail::StagedBatch const& staged,
                                   std::string_view name,
                                   PartOfBatch wanted) {
  auto const index = staged.schema->index_of(name);
  auto const& column = staged.schema->columns()[index];
  if (wanted == PartOfBatch::offsets) {
    require(column.is_jagged(), "column '{}' is not jagged, and has no offsets", name);
  } else {
    require(column.is_float() == (wanted == PartOfBatch::floats),
            "column '{}' has values of type {}; asked for {}",
            name,
            to_string(column.type),
            wanted == PartOfBatch::floats ? "floats" : "integers");
  }
  return staged.places[index];
}

}  // namespace

std::string to_string(LoaderPosition const& position) {
  std::string text;
  visit_numbers(position, [&](std::string_view name, auto number) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, number);
  });
  return text;
}

LoaderPosition LoaderPosition::parse(std::string_view text) {
  LoaderPosition position;
  std::string_view rest = text;
  visit_numbers(position, [&](std::string_view name, auto& number) {
    auto const word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    bool good = word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=';
    if (good) {
      auto const value = detail::parse_number<std::remove_reference_t<decltype(number)>>(
          word.substr(name.size() + 1));
      good = value && *value >= 0;
      number = value.value_or(0);
    }
    require(good,
            "position: expected {}=number, found {} in {}",
            name,
            detail::shown(word),
            detail::shown(text));
  });
  require(rest.empty(), "position: expected nothing more, found {}", detail::shown(rest));
  return position;
}

std::span<float const> Batch::floats(std::string_view column) const {
  auto const& place = place_of(*staged_, column, PartOfBatch::floats);
  return {staged_->floats + place.first, place.count};
}

std::span<std::int64_t const> Batch::ints(std::string_view column) const {
  auto const& place = place_of(*staged_, column, PartOfBatch::ints);
  return {staged_->ints + place.first, place.count};
}

std::span<std::int64_t const> Batch::offsets(std::string_view column) const {
  auto const& place = place_of(*staged_, column, PartOfBatch::offsets);
  return {staged_->ints + place.first_offset, static_cast<std::size_t>(shape_rows()) + 1};
}

}  // namespace msstream::data
