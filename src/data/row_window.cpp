// SPDX-License-Identifier: Apache-2.0
#include "data/row_window.hpp"

#include <algorithm>
#include <cstddef>

namespace msstream::data::detail {

namespace {

/// A row of a batch: its part of the window, and its number in the part's chunk.
struct Source {
  std::uint32_t part;
  std::uint32_t row;
};

std::vector<Source> sources_of(RowWindow const& window, std::int64_t first, std::int64_t count) {
  std::vector<Source> sources(static_cast<std::size_t>(count));
  std::size_t part = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    auto const place = static_cast<std::size_t>(first) + i;
    auto const row = window.order.empty() ? static_cast<std::int64_t>(place)
                                          : static_cast<std::int64_t>(window.order[place]);
    auto const& now = window.parts[part];
    bool const inside =
        row >= now.first && (part + 1 == window.parts.size() || row < window.parts[part + 1].first);
    if (!inside) {
      auto const after = std::ranges::upper_bound(window.parts, row, {}, &RowWindow::Part::first);
      part = static_cast<std::size_t>(after - window.parts.begin()) - 1;
    }
    auto const& found = window.parts[part];
    sources[i] = {static_cast<std::uint32_t>(part),
                  static_cast<std::uint32_t>(found.begin + row - found.first)};
  }
  return sources;
}

template <class T>
Values<T> const& values_of(Chunk const& chunk, std::size_t column) {
  if constexpr (std::is_same_v<T, float>) {
    return chunk.floats(column);
  } else {
    return chunk.ints(column);
  }
}

template <class T>
void gather_fixed(RowWindow const& window,
                  std::vector<Source> const& sources,
                  std::size_t column,
                  std::size_t width,
                  T* out) {
  std::vector<T const*> values;
  for (auto const& part : window.parts) {
    values.push_back(values_of<T>(*part.chunk, column).data());
  }
  if (width == 1) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      out[i] = values[sources[i].part][sources[i].row];
    }
    return;
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::copy_n(values[sources[i].part] + sources[i].row * width, width, out + i * width);
  }
}

/// Writes the offsets of a jagged column and returns the number of its values.
std::int64_t gather_offsets(RowWindow const& window,
                            std::vector<Source> const& sources,
                            std::size_t column,
                            std::int64_t shape_rows,
                            std::int64_t* out) {
  std::int64_t total = 0;
  *out++ = 0;
  for (auto const& source : sources) {
    auto const& offsets = window.parts[source.part].chunk->offsets(column);
    total += offsets[source.row + 1] - offsets[source.row];
    *out++ = total;
  }
  std::fill_n(out, shape_rows - static_cast<std::int64_t>(sources.size()), total);
  return total;
}

template <class T>
void gather_jagged(RowWindow const& window,
                   std::vector<Source> const& sources,
                   std::size_t column,
                   T* out) {
  for (auto const& source : sources) {
    auto const& chunk = *window.parts[source.part].chunk;
    auto const& offsets = chunk.offsets(column);
    out = std::copy(values_of<T>(chunk, column).data() + offsets[source.row],
                    values_of<T>(chunk, column).data() + offsets[source.row + 1],
                    out);
  }
}

/// Returns the offsets of the groups of a batch, and in a padded batch those of lists behind them:
/// one of all rows that fill it up, and empty ones, so that there are as many as rows.
std::vector<std::int64_t> offsets_of_groups(RowWindow const& window, BatchRows const& of_batch) {
  std::vector<std::int64_t> offsets;
  if (!window.has_groups) {
    return offsets;
  }
  auto const end = of_batch.first + of_batch.count;
  for (auto start = std::ranges::lower_bound(window.starts, of_batch.first);
       start != window.starts.end() && *start < end;
       ++start) {
    offsets.push_back(*start - of_batch.first);
  }
  offsets.push_back(of_batch.count);
  if (of_batch.is_padded) {
    offsets.resize(static_cast<std::size_t>(of_batch.shape_rows) + 1, of_batch.shape_rows);
  }
  return offsets;
}

}  // namespace

void gather(RowWindow const& window, BatchRows const& of_batch, StagedBatch& batch) {
  auto const [first, count, shape_rows, padding_id, is_padded] = of_batch;
  auto const group_offsets = offsets_of_groups(window, of_batch);
  auto const sources = sources_of(window, first, count);
  auto const& columns = batch.schema->columns();
  auto const shape = static_cast<std::size_t>(shape_rows);
  batch.places.assign(columns.size(), {});
  std::size_t ints = 0;
  std::size_t floats = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (!columns[i].is_jagged()) {
      auto& end = columns[i].is_float() ? floats : ints;
      auto const values = shape * static_cast<std::size_t>(columns[i].width);
      batch.places[i] = {end, values, 0};
      end += values;
    }
  }
  std::vector<std::vector<std::int64_t>> offsets(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].is_jagged()) {
      offsets[i].resize(shape + 1);
      batch.places[i].count = static_cast<std::size_t>(
          gather_offsets(window, sources, i, shape_rows, offsets[i].data()));
      batch.places[i].first_offset = ints;
      ints += shape + 1;
    }
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].is_jagged()) {
      auto& end = columns[i].is_float() ? floats : ints;
      batch.places[i].first = end;
      end += batch.places[i].count;
    }
  }
  batch.groups = {ints, group_offsets.size(), 0};
  ints += group_offsets.size();
  batch.mask_first = floats;
  floats += shape;
  auto* const int_memory = batch.memory->ints(ints);
  auto* const float_memory = batch.memory->floats(floats);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    auto const& place = batch.places[i];
    auto const copy = [&](auto* out, auto padding) {
      if (columns[i].is_jagged()) {
        std::ranges::copy(offsets[i], int_memory + place.first_offset);
        gather_jagged(window, sources, i, out);
        return;
      }
      auto const width = static_cast<std::size_t>(columns[i].width);
      gather_fixed(window, sources, i, width, out);
      std::fill_n(out + sources.size() * width, (shape - sources.size()) * width, padding);
    };
    columns[i].is_float() ? copy(float_memory + place.first, 0.0F)
                          : copy(int_memory + place.first, padding_id);
  }
  std::ranges::copy(group_offsets, int_memory + batch.groups.first);
  auto* const mask = float_memory + batch.mask_first;
  std::fill_n(std::fill_n(mask, sources.size(), 1.0F), shape - sources.size(), 0.0F);
  batch.ints = int_memory;
  batch.floats = float_memory;
  batch.int_count = ints;
  batch.float_count = floats;
  batch.rows = count;
  batch.shape_rows = shape_rows;
}

}  // namespace msstream::data::detail
