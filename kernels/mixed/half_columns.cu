// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "elementwise/elementwise.hpp"
#include "mixed/half_columns.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::ops::kernels {
namespace {

[[nodiscard]] bool allows_pairs(void const* address) {
  return reinterpret_cast<std::uintptr_t>(address) % alignof(float) == 0;
}

/// Returns the blocks as columns of floats, each a pair of halves, or nothing if a block does not
/// consist of such pairs.
[[nodiscard]] std::optional<std::vector<ColumnBlock>> as_pairs(std::span<HalfColumns const> blocks,
                                                               void const* packed) {
  std::vector<ColumnBlock> pairs;
  bool fits = allows_pairs(packed);
  for (auto const& block : blocks) {
    fits = fits && block.width % 2 == 0 && allows_pairs(block.data);
    pairs.push_back({static_cast<float*>(block.data), block.width / 2});
  }
  return fits ? std::optional(std::move(pairs)) : std::nullopt;
}

constexpr unsigned kThreads = 256;

/// Copies the halves of a matrix [rows, width] to or from the columns of a packed matrix that begin
/// at `packed`, one thread for each.
template <bool ToPacked>
__global__ void __launch_bounds__(kThreads) copy_halves_kernel(std::uint16_t* block,
                                                               std::uint16_t* packed,
                                                               std::int64_t rows,
                                                               std::int64_t width,
                                                               std::int64_t packed_width) {
  auto const i = grid_thread();
  auto const row = i / width;
  if (row >= rows) {
    return;
  }
  auto const in_packed = row * packed_width + (i - row * width);
  if constexpr (ToPacked) {
    packed[in_packed] = block[i];
  } else {
    block[i] = packed[in_packed];
  }
}

template <bool ToPacked>
void copy_each(CudaStream stream,
               std::span<HalfColumns const> blocks,
               std::int64_t rows,
               std::uint16_t* packed) {
  std::int64_t packed_width = 0;
  for (auto const& block : blocks) {
    packed_width += block.width;
  }
  for (auto const& block : blocks) {
    if (auto const count = rows * block.width; block.data != nullptr && count > 0) {
      copy_halves_kernel<ToPacked><<<grid_for(count, kThreads), kThreads, 0, stream.handle>>>(
          static_cast<std::uint16_t*>(block.data), packed, rows, block.width, packed_width);
      check_launch("columns of halves");
    }
    packed += block.width;
  }
}

/// Four neighbouring results are the work of a thread: it reads single halves, which the neighbours
/// share in the cache, since rows of an odd width are not aligned.
constexpr int kResized = 4;

__global__ void __launch_bounds__(kThreads) resize_columns_kernel(ResizedColumns const args) {
  auto const* const from = static_cast<std::uint16_t const*>(args.from);
  auto* const to = static_cast<std::uint16_t*>(args.to);
  auto const count = args.rows * args.to_width;
  auto const first = grid_thread() * kResized;
  auto row = first / args.to_width;
  auto column = first - row * args.to_width;
#pragma unroll
  for (int k = 0; k < kResized; ++k) {
    if (first + k < count) {
      to[first + k] = column < args.from_width ? __ldg(from + row * args.from_width + column)
                                               : std::uint16_t{0};
      if (++column == args.to_width) {
        column = 0;
        ++row;
      }
    }
  }
}

}  // namespace

void resize_half_columns(CudaStream stream, ResizedColumns const& args) {
  auto const count = args.rows * args.to_width;
  if (count > 0) {
    resize_columns_kernel<<<grid_for(count, kResized * kThreads), kThreads, 0, stream.handle>>>(
        args);
    check_launch("resize_half_columns");
  }
}

void concat_half_columns(CudaStream stream,
                         std::span<HalfColumns const> blocks,
                         std::int64_t rows,
                         void* packed) {
  if (auto const pairs = as_pairs(blocks, packed)) {
    concat_columns(stream, *pairs, rows, static_cast<float*>(packed));
    return;
  }
  copy_each<true>(stream, blocks, rows, static_cast<std::uint16_t*>(packed));
}

void split_half_columns(CudaStream stream,
                        void const* packed,
                        std::span<HalfColumns const> blocks,
                        std::int64_t rows) {
  if (auto const pairs = as_pairs(blocks, packed)) {
    split_columns(stream, static_cast<float const*>(packed), *pairs, rows);
    return;
  }
  // The kernel only reads the packed matrix.
  copy_each<false>(
      stream, blocks, rows, const_cast<std::uint16_t*>(static_cast<std::uint16_t const*>(packed)));
}

}  // namespace msstream::ops::kernels
