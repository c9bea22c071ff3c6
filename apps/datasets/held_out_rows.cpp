// SPDX-License-Identifier: Apache-2.0
#include "datasets/held_out_rows.hpp"

#include "datasets/split.hpp"

#include <algorithm>
#include <cstddef>

namespace msstream::datasets {

namespace {

using data::Chunk;

/// Moves those values of a column whose rows are held out to another column. The other values stay
/// in their memory. Row r has the values from begin_of(r) to begin_of(r + 1).
template <class T, class BeginOf>
void move_held_out(data::Values<T>& from,
                   std::int64_t rows,
                   BeginOf const& begin_of,
                   std::int64_t first_row,
                   std::int64_t holdout,
                   data::Values<T>& to) {
  if (from.empty()) {
    return;
  }
  to.reserve(from.size() / static_cast<std::size_t>(holdout) + 1);
  auto kept = from.begin();
  for (std::int64_t row = 0; row < rows; ++row) {
    auto const begin = from.begin() + begin_of(row);
    auto const end = from.begin() + begin_of(row + 1);
    if (is_held_out(first_row + row, holdout)) {
      to.insert(to.end(), begin, end);
    } else {
      kept = kept == begin ? end : std::copy(begin, end, kept);
    }
  }
  from.erase(kept, from.end());
}

}  // namespace

Chunk take_held_out(Chunk& chunk, std::int64_t first_row, std::int64_t holdout) {
  Chunk taken(chunk.schema());
  auto const rows = chunk.rows();
  auto const& columns = chunk.schema().columns();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    bool const is_jagged = columns[i].is_jagged();
    auto const offsets = is_jagged ? chunk.offsets(i) : data::Values<std::int64_t>();
    auto const begin_of = [&](std::int64_t row) {
      return is_jagged ? offsets[static_cast<std::size_t>(row)] : row * columns[i].width;
    };
    auto const move = [&](auto& from, auto& to) {
      move_held_out(from, rows, begin_of, first_row, holdout, to);
    };
    columns[i].is_float() ? move(chunk.floats(i), taken.floats(i))
                          : move(chunk.ints(i), taken.ints(i));
    if (columns[i].is_float() && !columns[i].transforms.empty()) {
      move(chunk.doubles(i), taken.doubles(i));
    }
    if (is_jagged) {
      chunk.offsets(i).resize(1);
      for (std::int64_t row = 0; row < rows; ++row) {
        auto& of = (is_held_out(first_row + row, holdout) ? taken : chunk).offsets(i);
        of.push_back(of.back() + begin_of(row + 1) - begin_of(row));
      }
    }
  }
  return taken;
}

}  // namespace msstream::datasets
