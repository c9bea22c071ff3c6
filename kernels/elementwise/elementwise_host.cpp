// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum.hpp"
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "elementwise/add_checks.hpp"
#include "elementwise/elementwise.hpp"
#include "elementwise/loss_math.hpp"
#include "elementwise/math.hpp"
#include "elementwise/sum_tree.hpp"

#include <algorithm>
#include <vector>

namespace msstream::ops::kernels {

namespace {

/// The cost of one exponential in bytes: the number of bytes that memory delivers in the same time.
constexpr std::int64_t kExponentialBytes = 64;

/// The number of inputs that add() adds in float32 before it continues in float64, see
/// common/long_sum.hpp.
constexpr std::size_t kInputsOfPart = kTermsOfPart;
static_assert(kAddInputsPerLaunch % kInputsOfPart == 0);

/// Calls function(i) for every i in [0, count), on several threads if the work is worth waking
/// them; `bytes` is the number of bytes that each call reads and writes.
template <class Function>
void for_each_item(std::int64_t count, std::int64_t bytes, Function const& function) {
  parallel_ranges(count, grain_of(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      function(i);
    }
  });
}

/// Calls copy(pointer into the block, index in the packed matrix, width) for every row of every
/// block, row by row, so that the packed matrix is walked once from front to back.
template <class Copy>
void for_each_row_piece(std::vector<ColumnBlock> const& blocks,
                        std::int64_t rows,
                        Copy const& copy) {
  std::int64_t width = 0;
  for (auto const& block : blocks) {
    width += block.width;
  }
  auto const bytes = 2 * width * static_cast<std::int64_t>(sizeof(float));
  for_each_item(rows, bytes, [&](std::int64_t row) {
    std::int64_t packed = row * width;
    for (auto const& block : blocks) {
      if (block.data != nullptr) {
        copy(block.data + row * block.width, packed, block.width);
      }
      packed += block.width;
    }
  });
}

/// Returns the sum of `count` floats, added in the order of elementwise/sum_tree.hpp.
float tree_sum(float const* input, std::int64_t count) {
  float lanes[kTreeLanes] = {};
  std::int64_t first = 0;
  for (; first + kTreeLanes <= count; first += kTreeLanes) {
    for (int lane = 0; lane < kTreeLanes; ++lane) {
      lanes[lane] += input[first + lane];
    }
  }
  for (std::int64_t i = first; i < count; ++i) {
    lanes[i - first] += input[i];
  }
  float folded[kTreeFold] = {};
  for (int lane = 0; lane < kTreeLanes; lane += kTreeFold) {
    for (int k = 0; k < kTreeFold; ++k) {
      folded[k] += lanes[lane + k];
    }
  }
  for (int half = kTreeFold / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) {
      folded[k] += folded[k + half];
    }
  }
  return folded[0];
}

}  // namespace

void concat_columns(HostStream stream,
                    std::span<ColumnBlock const> blocks,
                    std::int64_t rows,
                    float* packed) {
  stream.run([blocks = std::vector(blocks.begin(), blocks.end()), rows, packed] {
    for_each_row_piece(
        blocks, rows, [&](float const* piece, std::int64_t place, std::int64_t width) {
          std::copy_n(piece, width, packed + place);
        });
  });
}

void split_columns(HostStream stream,
                   float const* packed,
                   std::span<ColumnBlock const> blocks,
                   std::int64_t rows) {
  stream.run([blocks = std::vector(blocks.begin(), blocks.end()), rows, packed] {
    for_each_row_piece(blocks, rows, [&](float* piece, std::int64_t place, std::int64_t width) {
      std::copy_n(packed + place, width, piece);
    });
  });
}

void add(HostStream stream,
         std::span<float const* const> inputs,
         float* output,
         std::int64_t count) {
  require_addable(inputs, output);
  stream.run([inputs = std::vector(inputs.begin(), inputs.end()), output, count] {
    // The sums are computed in strips, because a strip stays in the first-level cache, and `output`
    // may then be any of the inputs.
    constexpr std::int64_t kStrip = 1024;
    auto const bytes = kStrip * static_cast<std::int64_t>((inputs.size() + 1) * sizeof(float));
    for_each_item((count + kStrip - 1) / kStrip, bytes, [&](std::int64_t strip) {
      float sums[kStrip];
      auto const first = strip * kStrip;
      auto const length = std::min(kStrip, count - first);
      auto const add_part = [&](std::size_t begin, std::size_t end) {
        std::copy_n(inputs[begin] + first, length, sums);
        for (auto k = begin + 1; k < end; ++k) {
          float const* const input = inputs[k] + first;
          for (std::int64_t i = 0; i < length; ++i) {
            sums[i] += input[i];
          }
        }
      };
      add_part(0, std::min(inputs.size(), kInputsOfPart));
      if (inputs.size() > kInputsOfPart) {
        double whole[kStrip];
        std::copy_n(sums, length, whole);
        for (auto k = kInputsOfPart; k < inputs.size(); k += kInputsOfPart) {
          if (k % kAddInputsPerLaunch == 0) {
            for (std::int64_t i = 0; i < length; ++i) {  // rounds to float32 like a CUDA launch
              whole[i] = static_cast<double>(static_cast<float>(whole[i]));
            }
          }
          add_part(k, std::min(inputs.size(), k + kInputsOfPart));
          for (std::int64_t i = 0; i < length; ++i) {
            whole[i] += static_cast<double>(sums[i]);
          }
        }
        std::transform(
            whole, whole + length, sums, [](double sum) { return static_cast<float>(sum); });
      }
      std::copy_n(sums, length, output + first);
    });
  });
}

void scale(HostStream stream, float const* input, float factor, float* output, std::int64_t count) {
  stream.run(
      [=] { for_each_item(count, 8, [=](std::int64_t i) { output[i] = factor * input[i]; }); });
}

void sigmoid(HostStream stream, float const* input, float* output, std::int64_t count) {
  stream.run([=] {
    for_each_item(
        count, kExponentialBytes, [=](std::int64_t i) { output[i] = logistic(input[i]); });
  });
}

void sigmoid_gradient(HostStream stream,
                      float const* output,
                      float const* output_gradient,
                      float* input_gradient,
                      std::int64_t count) {
  stream.run([=] {
    for_each_item(count, 12, [=](std::int64_t i) {
      input_gradient[i] = output_gradient[i] * output[i] * (1.0F - output[i]);
    });
  });
}

std::size_t reduce_workspace_bytes(HostStream, std::int64_t count) {
  return tree_workspace_bytes(count);
}

void reduce_sum(HostStream stream,
                float const* input,
                std::int64_t count,
                float factor,
                void* workspace,
                float* output) {
  stream.run([=] {
    if (count <= kTreeChunk) {
      *output = factor * tree_sum(input, count);
      return;
    }
    auto* const partials = static_cast<float*>(workspace);
    auto const chunks = tree_chunks(count);
    for_each_item(chunks, kTreeChunk * sizeof(float), [=](std::int64_t chunk) {
      auto const first = chunk * kTreeChunk;
      partials[chunk] = tree_sum(input + first, std::min(kTreeChunk, count - first));
    });
    *output = factor * tree_sum(partials, chunks);
  });
}

void broadcast_scalar(
    HostStream stream, float const* value, float factor, float* output, std::int64_t count) {
  stream.run([=] {
    float const scaled = factor * *value;
    for_each_item(count, 4, [=](std::int64_t i) { output[i] = scaled; });
  });
}

void element_losses(HostStream stream, ElementLossArgs const& args) {
  with_real_types(
      "element_losses: an input", args.dtype, args.gradient_dtype, [&](auto type, auto gradient) {
        using T = typename decltype(type)::type;
        using Gradient = typename decltype(gradient)::type;
        stream.run([args] {
          for_each_item(args.count, 3 * kExponentialBytes, [&](std::int64_t i) {
            compute_loss<T, Gradient>(args, i);
          });
        });
      });
}

void scale_by_scalar(HostStream stream,
                     float const* input,
                     float const* value,
                     float factor,
                     void* output,
                     std::int64_t count,
                     DType dtype) {
  with_real_type("scale_by_scalar: an output", dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([=, target = static_cast<T*>(output)] {
      float const scaled = factor * *value;
      for_each_item(
          count, 8, [=](std::int64_t i) { target[i] = from_float<T>(scaled * input[i]); });
    });
  });
}

}  // namespace msstream::ops::kernels
