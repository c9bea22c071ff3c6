// SPDX-License-Identifier: Apache-2.0
#include "mixed/half_columns.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// Calls copy(row of the packed matrix, row of a block, bytes) for every row of every block that
/// has memory and columns.
template <class Packed, class Copy>
void for_each_row(std::vector<HalfColumns> const& blocks,
                  std::int64_t rows,
                  Packed* packed,
                  Copy const& copy) {
  constexpr std::int64_t kHalfBytes = 2;
  std::int64_t width = 0;
  for (auto const& block : blocks) {
    width += block.width;
  }
  std::int64_t start = 0;
  for (auto const& block : blocks) {
    for (std::int64_t row = 0; block.data != nullptr && block.width > 0 && row < rows; ++row) {
      copy(packed + (row * width + start) * kHalfBytes,
           static_cast<std::byte*>(block.data) + row * block.width * kHalfBytes,
           static_cast<std::size_t>(block.width * kHalfBytes));
    }
    start += block.width;
  }
}

}  // namespace

void resize_half_columns(HostStream stream, ResizedColumns const& args) {
  stream.run([args] {
    auto const* const from = static_cast<std::uint16_t const*>(args.from);
    auto* const to = static_cast<std::uint16_t*>(args.to);
    auto const copied = std::min(args.from_width, args.to_width);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      std::copy_n(from + row * args.from_width, copied, to + row * args.to_width);
      std::fill_n(to + row * args.to_width + copied, args.to_width - copied, std::uint16_t{0});
    }
  });
}

void concat_half_columns(HostStream stream,
                         std::span<HalfColumns const> blocks,
                         std::int64_t rows,
                         void* packed) {
  stream.run([all = std::vector<HalfColumns>(blocks.begin(), blocks.end()), rows, packed] {
    for_each_row(all,
                 rows,
                 static_cast<std::byte*>(packed),
                 [](std::byte* in_packed, std::byte const* in_block, std::size_t bytes) {
                   std::memcpy(in_packed, in_block, bytes);
                 });
  });
}

void split_half_columns(HostStream stream,
                        void const* packed,
                        std::span<HalfColumns const> blocks,
                        std::int64_t rows) {
  stream.run([all = std::vector<HalfColumns>(blocks.begin(), blocks.end()), rows, packed] {
    for_each_row(all,
                 rows,
                 static_cast<std::byte const*>(packed),
                 [](std::byte const* in_packed, std::byte* in_block, std::size_t bytes) {
                   std::memcpy(in_block, in_packed, bytes);
                 });
  });
}

}  // namespace msstream::ops::kernels
