// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/chunk_access.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::data::detail {

/// Releases the memory behind the values if it is more than they need.
template <class T>
void release_unused(Values<T>& values) {
  if (values.size() < values.capacity() / 2) {
    values.shrink_to_fit();
  }
}

/// Removes the rows of a chunk for which `keep(row)` is false. A chunk of which less than half
/// remains has memory for the rest alone.
template <class Keep>
void keep_rows(Chunk& chunk, Keep const& keep) {
  std::vector<std::size_t> kept;
  for (std::int64_t row = 0; row < chunk.rows(); ++row) {
    if (keep(row)) {
      kept.push_back(static_cast<std::size_t>(row));
    }
  }
  if (static_cast<std::int64_t>(kept.size()) == chunk.rows()) {
    return;
  }
  std::vector<std::int64_t> numbers;
  numbers.reserve(kept.size());
  for (auto const row : kept) {
    numbers.push_back(ChunkAccess::number_of(chunk, static_cast<std::int64_t>(row)));
  }
  auto const& columns = chunk.schema().columns();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    bool const jagged = columns[i].is_jagged();
    auto const width = static_cast<std::size_t>(columns[i].width);
    Values<std::int64_t> const offsets = jagged ? chunk.offsets(i) : Values<std::int64_t>();
    auto const begin_of = [&](std::size_t row) {
      return jagged ? static_cast<std::size_t>(offsets[row]) : row * width;
    };
    ChunkAccess::for_each_kind(chunk, i, [&](auto& values) {
      if (values.empty()) {
        return;
      }
      auto end = values.begin();
      for (auto const row : kept) {
        end = std::copy(values.begin() + static_cast<std::ptrdiff_t>(begin_of(row)),
                        values.begin() + static_cast<std::ptrdiff_t>(begin_of(row + 1)),
                        end);
      }
      values.erase(end, values.end());
      release_unused(values);
    });
    if (jagged) {
      auto& made = chunk.offsets(i);
      made.resize(kept.size() + 1);
      release_unused(made);
      for (std::size_t row = 0; row < kept.size(); ++row) {
        made[row + 1] = made[row] + offsets[kept[row] + 1] - offsets[kept[row]];
      }
    }
  }
  ChunkAccess::set_numbers(chunk, std::move(numbers));
}

}  // namespace msstream::data::detail
