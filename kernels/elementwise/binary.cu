// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "elementwise/binary.hpp"
#include "elementwise/binary_math.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {

namespace {

/// An operand of a binary elementwise operation in the one-dimensional case: a contiguous array, or
/// a single repeated element.
template <class T>
struct FlatOperand {
  T const* data;
  bool repeats;

  template <int Quads>
  __device__ auto load(QuadPlace<Quads> const& place) const {
    if (!repeats) {
      return place.load(data);
    }
    typename QuadPlace<Quads>::Values repeated;
    float const value = widen(*data);
#pragma unroll
    for (float& lane : repeated.lanes) {
      lane = value;
    }
    return repeated;
  }
};

template <int Quads, class T, class Function>
__global__ void __launch_bounds__(kBlockThreads) flat_kernel(Function function,
                                                             FlatOperand<T> left,
                                                             FlatOperand<T> right,
                                                             T* output,
                                                             std::int64_t count,
                                                             bool aligned) {
  auto const place = grid_place<Quads>(count, aligned);
  if (!place.exists()) {
    return;
  }
  auto const lefts = left.load(place);
  auto const rights = right.load(place);
  typename QuadPlace<Quads>::Values results;
#pragma unroll
  for (int lane = 0; lane < place.kLanes; ++lane) {
    results.lanes[lane] = function(lefts.lanes[lane], rights.lanes[lane]);
  }
  place.store(output, results);
}

/// The extents and strides of a BroadcastPlan in the integer type that the kernel divides with.
template <int Rank, class Index>
struct Walk {
  Index extents[Rank];
  Index left_strides[Rank];
  Index right_strides[Rank];
};

/// The values of `Lanes` neighbouring elements of each operand, all in one row of the innermost
/// dimension.
template <int Lanes>
struct Operands {
  Pack<float, Lanes> left;
  Pack<float, Lanes> right;
};

template <int Lanes, class T, class Index>
__device__ Pack<float, Lanes> load_lanes(T const* from, Index stride) {
  Pack<float, Lanes> pack;
  if (Lanes > 1 && stride != 0) {
    auto const loaded = *reinterpret_cast<Pack<T, Lanes> const*>(from);
#pragma unroll
    for (int lane = 0; lane < Lanes; ++lane) {
      pack.lanes[lane] = widen(loaded.lanes[lane]);
    }
    return pack;
  }
  float const value = widen(*from);
#pragma unroll
  for (int lane = 0; lane < Lanes; ++lane) {
    pack.lanes[lane] = value;
  }
  return pack;
}

/// Loads the operands of `Lanes` neighbouring elements of the output, from element `first` on.
template <int Lanes, int Rank, class T, class Index>
__device__ Operands<Lanes> load_operands(Walk<Rank, Index> const& walk,
                                         T const* left,
                                         T const* right,
                                         Index first) {
  Index rest = first;
  Index left_place = 0;
  Index right_place = 0;
#pragma unroll
  for (int d = Rank - 1; d > 0; --d) {
    Index const outside = rest / walk.extents[d];
    Index const at = rest - outside * walk.extents[d];
    left_place += at * walk.left_strides[d];
    right_place += at * walk.right_strides[d];
    rest = outside;
  }
  left_place += rest * walk.left_strides[0];
  right_place += rest * walk.right_strides[0];
  return {load_lanes<Lanes>(left + left_place, walk.left_strides[Rank - 1]),
          load_lanes<Lanes>(right + right_place, walk.right_strides[Rank - 1])};
}

/// Computes `Packs` groups of `Lanes` neighbouring elements of the output per thread. The groups of
/// a thread are a block's width apart.
template <class T, class Function, int Rank, int Packs, int Lanes, class Index>
__global__ void __launch_bounds__(kBlockThreads)
    strided_kernel(Function function,
                   __grid_constant__ Walk<Rank, Index> const walk,
                   T const* left,
                   T const* right,
                   T* output,
                   std::int64_t count) {
  std::int64_t const first = grid_quad<Packs>() * Lanes;
  constexpr int kStep = kBlockThreads * Lanes;
  Operands<Lanes> operands[Packs];
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    if (first + p * kStep < count) {
      operands[p] = load_operands<Lanes>(walk, left, right, static_cast<Index>(first + p * kStep));
    }
  }
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    if (first + p * kStep < count) {
      Pack<T, Lanes> results;
#pragma unroll
      for (int lane = 0; lane < Lanes; ++lane) {
        results.lanes[lane] =
            narrowed<T>(function(operands[p].left.lanes[lane], operands[p].right.lanes[lane]));
      }
      *reinterpret_cast<Pack<T, Lanes>*>(output + first + p * kStep) = results;
    }
  }
}

/// Returns whether every group of four neighbouring elements lies in one row and can be loaded and
/// stored with one instruction.
bool rows_fit_quads(BinaryArgs const& args) {
  auto const& plan = args.plan;
  int const last = plan.rank - 1;
  auto const fits = [&](void const* data, std::int64_t const* strides) {
    return strides[last] == 0 ||
           (quads_fit(static_cast<char const*>(data)) &&
            std::all_of(strides, strides + last, [](auto s) { return s % 4 == 0; }));
  };
  return plan.extents[last] % 4 == 0 && quads_fit(static_cast<char const*>(args.output)) &&
         fits(args.left, plan.left_strides) && fits(args.right, plan.right_strides);
}

template <class T, int Rank, class Index, class Function>
void launch_strided(CudaStream stream, BinaryArgs const& args, Function function) {
  auto const& plan = args.plan;
  Walk<Rank, Index> walk;
  // The number of outer dimensions of extent 1 that are added in front of those of the plan.
  int const missing = Rank - plan.rank;
  for (int d = 0; d < Rank; ++d) {
    bool const exists = d >= missing;
    walk.extents[d] = static_cast<Index>(exists ? plan.extents[d - missing] : 1);
    walk.left_strides[d] = static_cast<Index>(exists ? plan.left_strides[d - missing] : 0);
    walk.right_strides[d] = static_cast<Index>(exists ? plan.right_strides[d - missing] : 0);
  }
  auto const* const left = static_cast<T const*>(args.left);
  auto const* const right = static_cast<T const*>(args.right);
  auto* const output = static_cast<T*>(args.output);
  if (rows_fit_quads(args)) {
    with_quads_a_thread(plan.count, [&](auto quads, unsigned blocks) {
      strided_kernel<T, Function, Rank, quads.value, 4, Index>
          <<<blocks, kBlockThreads, 0, stream.handle>>>(
              function, walk, left, right, output, plan.count);
    });
  } else {
    strided_kernel<T, Function, Rank, 1, 1, Index>
        <<<grid_for(plan.count, kBlockThreads), kBlockThreads, 0, stream.handle>>>(
            function, walk, left, right, output, plan.count);
  }
}

template <class T, class Function>
void launch(CudaStream stream, BinaryArgs const& args, Function function) {
  auto const& plan = args.plan;
  if (plan.rank == 1) {
    FlatOperand<T> const left{static_cast<T const*>(args.left), plan.left_strides[0] == 0};
    FlatOperand<T> const right{static_cast<T const*>(args.right), plan.right_strides[0] == 0};
    auto* const output = static_cast<T*>(args.output);
    bool const aligned = quads_fit(output) && (left.repeats || quads_fit(left.data)) &&
                         (right.repeats || quads_fit(right.data));
    with_quads_a_thread(plan.count, [&](auto quads, unsigned blocks) {
      flat_kernel<quads.value><<<blocks, kBlockThreads, 0, stream.handle>>>(
          function, left, right, output, plan.count, aligned);
    });
  } else if (plan.count > std::numeric_limits<std::int32_t>::max()) {
    launch_strided<T, Shape::kMaxRank, std::int64_t>(stream, args, function);
  } else if (plan.rank == 2) {
    launch_strided<T, 2, std::uint32_t>(stream, args, function);
  } else if (plan.rank == 3) {
    launch_strided<T, 3, std::uint32_t>(stream, args, function);
  } else {
    launch_strided<T, 4, std::uint32_t>(stream, args, function);
  }
  check_launch("binary");
}

template <class T, int Quads>
__global__ void __launch_bounds__(kBlockThreads)
    multiply_gradient_kernel(__grid_constant__ MultiplyGradientArgs const args, bool aligned) {
  auto const place = grid_place<Quads>(args.count, aligned);
  if (!place.exists()) {
    return;
  }
  auto left = place.load(static_cast<T const*>(args.left));
  auto right = place.load(static_cast<T const*>(args.right));
  auto const gradient = place.load(static_cast<T const*>(args.output_gradient));
#pragma unroll
  for (int lane = 0; lane < place.kLanes; ++lane) {
    left.lanes[lane] *= gradient.lanes[lane];
    right.lanes[lane] *= gradient.lanes[lane];
  }
  place.store(static_cast<T*>(args.left_gradient), right);
  place.store(static_cast<T*>(args.right_gradient), left);
}

}  // namespace

void binary(CudaStream stream, BinaryArgs const& args) {
  if (args.plan.count > 0) {
    with_function(args.function, args.dtype, [&](auto type, auto function) {
      launch<typename decltype(type)::type>(stream, args, function);
    });
  }
}

void multiply_gradient(CudaStream stream, MultiplyGradientArgs const& args) {
  if (args.count <= 0) {
    return;
  }
  bool const aligned = quads_fit(static_cast<char const*>(args.left),
                                 static_cast<char const*>(args.right),
                                 static_cast<char const*>(args.output_gradient),
                                 static_cast<char const*>(args.left_gradient),
                                 static_cast<char const*>(args.right_gradient));
  with_real_type("multiply_gradient: an operand", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_quads_a_thread(args.count, [&](auto quads, unsigned blocks) {
      multiply_gradient_kernel<T, quads.value>
          <<<blocks, kBlockThreads, 0, stream.handle>>>(args, aligned);
    });
  });
  check_launch("multiply_gradient");
}

}  // namespace msstream::ops::kernels
