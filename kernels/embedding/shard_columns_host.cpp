// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "embedding/shard_column_math.hpp"
#include "embedding/shard_columns.hpp"

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr std::int64_t kGrainOfElements = std::int64_t{1} << 14U;

}  // namespace

void joined_columns(HostStream stream, JoinedColumnsArgs const& args) {
  stream.run([args] {
    auto const grain = 1 + kGrainOfElements / (args.columns + 1);
    parallel_ranges(args.rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (auto row = begin; row < end; ++row) {
        for (std::int64_t column = 0; column < args.columns; ++column) {
          args.output[row * args.columns + column] = joined_element(args, row, column);
        }
      }
    });
  });
}

void spread_columns(HostStream stream, SpreadColumnsArgs const& args) {
  stream.run([args] {
    for (std::int64_t rank = 0; rank < args.ranks; ++rank) {
      parallel_ranges(args.stride, kGrainOfElements, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i) {
          args.messages[rank * args.stride + i] = spread_element(args, rank, i);
        }
      });
    }
  });
}

}  // namespace msstream::ops::kernels
