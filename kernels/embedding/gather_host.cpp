// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "embedding/gather.hpp"

#include <cstring>

namespace msstream::ops::kernels {
namespace {

struct Rows {
  std::byte* bytes;
  std::int64_t row_bytes;

  Rows(void* memory, std::int64_t bytes_a_row)
      : bytes(static_cast<std::byte*>(memory)), row_bytes(bytes_a_row) {}

  void copy(std::int64_t to, void const* from, std::int64_t row) const {
    std::memcpy(bytes + to * row_bytes,
                static_cast<std::byte const*>(from) + row * row_bytes,
                static_cast<std::size_t>(row_bytes));
  }
  void clear(std::int64_t row, std::int64_t count = 1) const {
    std::memset(bytes + row * row_bytes, 0, static_cast<std::size_t>(count * row_bytes));
  }
};

}  // namespace

void gather_rows(HostStream stream, GatherRowsArgs const& args) {
  stream.run([args] {
    Rows const output(args.output, args.row_bytes);
    auto const count = args.row_bytes > 0 ? existing_places(args.count, args.capacity) : 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (auto const id = args.ids.at(i); is_in_range(id, args.rows)) {
        output.copy(i, args.table, id);
      } else {
        output.clear(i);
      }
    }
  });
}

std::size_t scatter_rows_workspace_bytes(HostStream, std::int64_t, std::int64_t, bool) {
  return 0;
}

void scatter_rows(HostStream stream, ScatterRowsArgs const& args) {
  stream.run([args] {
    auto const& targets = args.targets;
    Rows const output(args.output, args.row_bytes);
    if (args.row_bytes == 0 || targets.rows == 0) {
      return;
    }
    if (!args.keeps_others) {
      output.clear(0, targets.rows);
    }
    auto const count = existing_places(targets.count, targets.capacity);
    for (std::int64_t i = 0; i < count; ++i) {
      if (auto const id = targets.ids.at(i); is_in_range(id, targets.rows)) {
        output.copy(id, args.values, i);
      }
    }
  });
}

std::size_t scatter_rows_gradient_workspace_bytes(HostStream, std::int64_t, std::int64_t rows) {
  return static_cast<std::size_t>(rows) * sizeof(std::int32_t);
}

void scatter_rows_gradient(HostStream stream, ScatterRowsGradientArgs const& args) {
  stream.run([args] {
    auto const& targets = args.targets;
    Rows const gradients(args.value_gradients, args.row_bytes);
    if (args.row_bytes == 0 || targets.capacity == 0) {
      return;
    }
    auto* const last_places = static_cast<std::int32_t*>(targets.workspace);
    auto const count = existing_places(targets.count, targets.capacity);
    for (std::int64_t i = 0; i < count; ++i) {
      if (auto const id = targets.ids.at(i); is_in_range(id, targets.rows)) {
        last_places[id] = static_cast<std::int32_t>(i);
      }
    }
    gradients.clear(0, targets.capacity);
    for (std::int64_t i = 0; i < count; ++i) {
      auto const id = targets.ids.at(i);
      if (is_in_range(id, targets.rows) && last_places[id] == i) {
        gradients.copy(i, args.output_gradient, id);
      }
    }
  });
}

}  // namespace msstream::ops::kernels
