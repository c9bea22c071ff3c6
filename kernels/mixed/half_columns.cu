// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "elementwise/elementwise.hpp"
#include "mixed/half_columns.hpp"

#include <optional>
#include <vector>

namespace msstream::ops::kernels {
namespace {

constexpr std::size_t kHalfBytes = 2;

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

/// Calls copy(block, offset in the packed rows, bytes of the packed rows, bytes of the block's
/// rows) for each block with elements, of at least one row.
template <class Copy>
void for_each_block(std::span<HalfColumns const> blocks, std::int64_t rows, Copy const& copy) {
  std::size_t packed_bytes = 0;
  for (auto const& block : blocks) {
    packed_bytes += static_cast<std::size_t>(block.width) * kHalfBytes;
  }
  std::size_t offset = 0;
  for (auto const& block : blocks) {
    auto const bytes = static_cast<std::size_t>(block.width) * kHalfBytes;
    if (block.data != nullptr && bytes > 0 && rows > 0) {
      check_cuda(copy(block.data, offset, packed_bytes, bytes), "cudaMemcpy2DAsync");
    }
    offset += bytes;
  }
}

}  // namespace

void concat_half_columns(CudaStream stream,
                         std::span<HalfColumns const> blocks,
                         std::int64_t rows,
                         void* packed) {
  if (auto const pairs = as_pairs(blocks, packed)) {
    concat_columns(stream, *pairs, rows, static_cast<float*>(packed));
    return;
  }
  for_each_block(blocks,
                 rows,
                 [&](void* block, std::size_t offset, std::size_t packed_bytes, std::size_t bytes) {
                   return cudaMemcpy2DAsync(static_cast<char*>(packed) + offset,
                                            packed_bytes,
                                            block,
                                            bytes,
                                            bytes,
                                            static_cast<std::size_t>(rows),
                                            cudaMemcpyDeviceToDevice,
                                            stream.handle);
                 });
}

void split_half_columns(CudaStream stream,
                        void const* packed,
                        std::span<HalfColumns const> blocks,
                        std::int64_t rows) {
  if (auto const pairs = as_pairs(blocks, packed)) {
    split_columns(stream, static_cast<float const*>(packed), *pairs, rows);
    return;
  }
  for_each_block(blocks,
                 rows,
                 [&](void* block, std::size_t offset, std::size_t packed_bytes, std::size_t bytes) {
                   return cudaMemcpy2DAsync(block,
                                            bytes,
                                            static_cast<char const*>(packed) + offset,
                                            packed_bytes,
                                            bytes,
                                            static_cast<std::size_t>(rows),
                                            cudaMemcpyDeviceToDevice,
                                            stream.handle);
                 });
}

}  // namespace msstream::ops::kernels
