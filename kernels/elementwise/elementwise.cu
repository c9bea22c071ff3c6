// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/long_sum.hpp"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "elementwise/add_checks.hpp"
#include "elementwise/elementwise.hpp"
#include "elementwise/loss_math.hpp"
#include "elementwise/math.hpp"
#include "elementwise/sum_tree.hpp"

#include <algorithm>

namespace msstream::ops::kernels {

namespace {

struct AddTable {
  float const* inputs[kAddInputsPerLaunch];
  int count;
  bool goes_on;  ///< whether the sum starts from the values in the output
};

/// Adds the arrays of `table` element by element. `InParts` is for more than kTermsOfPart inputs,
/// and for a sum that starts from the values in the output.
template <int Quads, bool InParts>
__global__ void __launch_bounds__(kBlockThreads) add_kernel(__grid_constant__ AddTable const table,
                                                            float* output,
                                                            std::int64_t count,
                                                            bool aligned) {
  auto const place = grid_place<Quads>(count, aligned);
  if (!place.exists()) {
    return;
  }
  // The branch that depends on alignment is outside the loop, so that the loads of several inputs
  // are in flight together.
  auto const sum_of = [&](auto const& load) {
    constexpr int kInputsInFlight = 8 / Quads;
    auto const part_of = [&](int first, int end) {
      auto sum = load(table.inputs[first]);
#pragma unroll kInputsInFlight
      for (int k = first + 1; k < end; ++k) {
        auto const term = load(table.inputs[k]);
        for (int lane = 0; lane < place.kLanes; ++lane) {
          sum.lanes[lane] += term.lanes[lane];
        }
      }
      return sum;
    };
    if constexpr (!InParts) {
      return part_of(0, table.count);
    } else {
      int const end_of_first = table.goes_on ? 0 : kTermsOfPart;
      auto sum = table.goes_on ? load(output) : part_of(0, end_of_first);
      double whole[place.kLanes];
      for (int lane = 0; lane < place.kLanes; ++lane) {
        whole[lane] = static_cast<double>(sum.lanes[lane]);
      }
      for (int first = end_of_first; first < table.count; first += kTermsOfPart) {
        auto const part = part_of(first, min(first + kTermsOfPart, table.count));
        for (int lane = 0; lane < place.kLanes; ++lane) {
          whole[lane] += static_cast<double>(part.lanes[lane]);
        }
      }
      for (int lane = 0; lane < place.kLanes; ++lane) {
        sum.lanes[lane] = static_cast<float>(whole[lane]);
      }
      return sum;
    }
  };
  place.store(output,
              place.whole ? sum_of([&](float const* from) { return place.load_whole(from); })
                          : sum_of([&](float const* from) { return place.load_part(from); }));
}

struct Scale {
  float factor;
  __device__ float operator()(float value) const { return factor * value; }
};
struct ScaleBy {
  float const* value;
  float factor;
  __device__ float operator()() const { return factor * *value; }
  __device__ float operator()(float input) const { return factor * *value * input; }
};
struct Logistic {
  __device__ float operator()(float value) const { return logistic(value); }
};
struct LogisticGradient {
  __device__ float operator()(float output, float gradient) const {
    return gradient * output * (1.0F - output);
  }
};

__global__ void __launch_bounds__(kTreeLanes) tree_sum_kernel(
    float const* input, std::int64_t count, std::int64_t chunk_count, float factor, float* sums) {
  __shared__ float lanes[kTreeLanes];
  std::int64_t const first = blockIdx.x * chunk_count;
  std::int64_t const last = min(first + chunk_count, count);
  float sum = 0.0F;
#pragma unroll 8
  for (std::int64_t i = first + threadIdx.x; i < last; i += kTreeLanes) {
    sum += input[i];
  }
  lanes[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kTreeFold) {
    return;
  }
  float folded = 0.0F;
  for (int lane = 0; lane < kTreeLanes; lane += kTreeFold) {
    folded += lanes[lane + threadIdx.x];
  }
  for (int half = kTreeFold / 2; half > 0; half /= 2) {
    folded += __shfl_down_sync(0xFFFFFFFFU, folded, half);
  }
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = factor * folded;
  }
}

template <class T, class Gradient>
__global__ void __launch_bounds__(kBlockThreads)
    element_losses_kernel(__grid_constant__ ElementLossArgs const args) {
  std::int64_t const i = grid_thread();
  if (i < args.count) {
    compute_loss<T, Gradient>(args, i);
  }
}

}  // namespace

void add(CudaStream stream,
         std::span<float const* const> inputs,
         float* output,
         std::int64_t count) {
  require_addable(inputs, output);
  if (count <= 0) {
    return;
  }
  AddTable table{};
  bool aligned = quads_fit(output);
  auto const launch = [&] {
    bool const in_parts = table.goes_on || table.count > kTermsOfPart;
    with_quads_a_thread(count, [&](auto quads, unsigned blocks) {
      auto* const kernel =
          in_parts ? add_kernel<quads.value, true> : add_kernel<quads.value, false>;
      kernel<<<blocks, kBlockThreads, 0, stream.handle>>>(table, output, count, aligned);
    });
    check_launch("add");
  };
  for (auto const* const input : inputs) {
    if (table.count == static_cast<int>(kAddInputsPerLaunch)) {
      launch();
      table.count = 0;
      table.goes_on = true;
      aligned = quads_fit(output);
    }
    table.inputs[table.count++] = input;
    aligned = aligned && quads_fit(input);
  }
  launch();
}

void scale(CudaStream stream, float const* input, float factor, float* output, std::int64_t count) {
  map(stream, "scale", Scale{factor}, output, count, input);
}

void sigmoid(CudaStream stream, float const* input, float* output, std::int64_t count) {
  map(stream, "sigmoid", Logistic{}, output, count, input);
}

void sigmoid_gradient(CudaStream stream,
                      float const* output,
                      float const* output_gradient,
                      float* input_gradient,
                      std::int64_t count) {
  map(stream,
      "sigmoid_gradient",
      LogisticGradient{},
      input_gradient,
      count,
      output,
      output_gradient);
}

std::size_t reduce_workspace_bytes(CudaStream, std::int64_t count) {
  return tree_workspace_bytes(count);
}

void reduce_sum(CudaStream stream,
                float const* input,
                std::int64_t count,
                float factor,
                void* workspace,
                float* output) {
  auto const sum = [&](float const* from, std::int64_t n, std::int64_t chunk, float by, float* to) {
    auto const blocks = std::max(1U, grid_for(n, chunk));  // an empty sum writes 0
    tree_sum_kernel<<<blocks, kTreeLanes, 0, stream.handle>>>(from, n, chunk, by, to);
    check_launch("reduce_sum");
  };
  if (count <= kTreeChunk) {
    sum(input, count, kTreeChunk, factor, output);
    return;
  }
  auto* const partials = static_cast<float*>(workspace);
  auto const chunks = tree_chunks(count);
  sum(input, count, kTreeChunk, 1.0F, partials);
  sum(partials, chunks, chunks, factor, output);
}

void broadcast_scalar(
    CudaStream stream, float const* value, float factor, float* output, std::int64_t count) {
  map(stream, "broadcast_scalar", ScaleBy{value, factor}, output, count);
}

void element_losses(CudaStream stream, ElementLossArgs const& args) {
  if (args.count <= 0) {
    return;
  }
  with_real_types(
      "element_losses: an input", args.dtype, args.gradient_dtype, [&](auto type, auto gradient) {
        element_losses_kernel<typename decltype(type)::type, typename decltype(gradient)::type>
            <<<grid_for(args.count, kBlockThreads), kBlockThreads, 0, stream.handle>>>(args);
      });
  check_launch("element_losses");
}

void scale_by_scalar(CudaStream stream,
                     float const* input,
                     float const* value,
                     float factor,
                     void* output,
                     std::int64_t count,
                     DType dtype) {
  with_real_type("scale_by_scalar: an output", dtype, [&](auto type) {
    auto* const target = static_cast<typename decltype(type)::type*>(output);
    map(stream, "scale_by_scalar", ScaleBy{value, factor}, target, count, input);
  });
}

}  // namespace msstream::ops::kernels
