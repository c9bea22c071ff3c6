// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/rounded.hpp"
#include "common/vector_map.cuh"
#include "optimizer/averages.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

namespace {

struct AveragePiece {
  AveragedWeights tensor;
  unsigned first_block;
  bool aligned;
};
using AverageTable = PieceTable<AveragePiece, 48>;

/// Returns whether four neighbouring elements can be loaded at each of the pointers at once.
bool packs_fit(AveragedWeights const& tensor) {
  auto const bytes = 4 * (tensor.dtype == DType::float32 ? sizeof(float) : sizeof(float16));
  auto const fits = [](void const* pointer, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
  };
  return quads_fit(tensor.average) && fits(tensor.weights, bytes) && fits(tensor.kept, bytes);
}

/// The elements of an array of any real type that a thread works on, as floats.
template <class T>
struct Lanes {
  using Values = QuadPlace<1>::Values;

  __device__ static Values load(QuadPlace<1> const& place, T const* from) {
    Values values{};
    if (place.whole) {
      auto const pack = *reinterpret_cast<Pack<T, 4> const*>(from + place.first);
      for (int k = 0; k < 4; ++k) {
        values.lanes[k] = widen(pack.lanes[k]);
      }
      return values;
    }
    for (int k = 0; k < 4; ++k) {
      if (place.element(k) < place.count) {
        values.lanes[k] = widen(from[place.element(k)]);
      }
    }
    return values;
  }
  /// Stores value_of(k), of type T, for each lane k that exists.
  template <class ValueOf>
  __device__ static void store(QuadPlace<1> const& place, T* to, ValueOf const& value_of) {
    if (place.whole) {
      Pack<T, 4> pack;
      for (int k = 0; k < 4; ++k) {
        pack.lanes[k] = value_of(k);
      }
      *reinterpret_cast<Pack<T, 4>*>(to + place.first) = pack;
      return;
    }
    for (int k = 0; k < 4; ++k) {
      if (place.element(k) < place.count) {
        to[place.element(k)] = value_of(k);
      }
    }
  }
  /// Copies the elements without a conversion.
  __device__ static void copy(QuadPlace<1> const& place, T* to, T const* from) {
    store(place, to, [&](int k) { return from[place.element(k)]; });
  }
};

struct AddToAverage {
  float decay;

  template <class T>
  __device__ void operator()(QuadPlace<1> const& place, AveragedWeights const& tensor, T*) const {
    auto const weights = Lanes<T>::load(place, static_cast<T const*>(tensor.weights));
    auto average = place.load(tensor.average);
    Rounded const kept{decay};
    for (int k = 0; k < 4; ++k) {
      average.lanes[k] =
          (kept * Rounded{average.lanes[k]} + (Rounded{1.0F} - kept) * Rounded{weights.lanes[k]})
              .value;
    }
    place.store(tensor.average, average);
  }
};

__device__ void exchange(QuadPlace<1> const& place, AveragedWeights const& tensor) {
  auto* const to = static_cast<float*>(tensor.weights);
  auto const weights = place.load(to);
  auto const average = place.load(tensor.average);
  place.store(to, average);
  place.store(tensor.average, weights);
}

struct SwapIn {
  __device__ void operator()(QuadPlace<1> const& place,
                             AveragedWeights const& tensor,
                             float*) const {
    exchange(place, tensor);
  }
  template <class T>
  __device__ void operator()(QuadPlace<1> const& place, AveragedWeights const& tensor, T*) const {
    auto* const weights = static_cast<T*>(tensor.weights);
    if (tensor.kept != nullptr) {
      Lanes<T>::copy(place, static_cast<T*>(tensor.kept), weights);
    }
    auto const average = place.load(tensor.average);
    Lanes<T>::store(place, weights, [&](int k) { return narrowed<T>(average.lanes[k]); });
  }
};
struct SwapOut {
  __device__ void operator()(QuadPlace<1> const& place,
                             AveragedWeights const& tensor,
                             float*) const {
    exchange(place, tensor);
  }
  template <class T>
  __device__ void operator()(QuadPlace<1> const& place, AveragedWeights const& tensor, T*) const {
    Lanes<T>::copy(place, static_cast<T*>(tensor.weights), static_cast<T const*>(tensor.kept));
  }
};

template <class Function>
__global__ void __launch_bounds__(kBlockThreads)
    averages_kernel(__grid_constant__ AverageTable const table, Function const function) {
  auto const& piece = piece_of_block(table.pieces, table.count);
  auto const& tensor = piece.tensor;
  QuadPlace<1> const place(piece_thread(piece), tensor.count, piece.aligned);
  if (!place.exists()) {
    return;
  }
  switch (tensor.dtype) {
    case DType::float16:
      return function(place, tensor, static_cast<float16*>(nullptr));
    case DType::bfloat16:
      return function(place, tensor, static_cast<bfloat16*>(nullptr));
    default:
      return function(place, tensor, static_cast<float*>(nullptr));
  }
}

template <class Function>
void for_all(CudaStream stream,
             char const* name,
             std::span<AveragedWeights const> tensors,
             Function const& function) {
  AverageTable table;
  auto const launch = [&] {
    if (table.count > 0) {
      averages_kernel<<<grid_for(table.blocks, 1), kBlockThreads, 0, stream.handle>>>(table,
                                                                                      function);
      check_launch(name);
      table = {};
    }
  };
  for (auto const& tensor : tensors) {
    if (table.full()) {
      launch();
    }
    if (tensor.count > 0) {
      table.add({tensor, 0, packs_fit(tensor)}, grid_for(tensor.count, 4 * kBlockThreads));
    }
  }
  launch();
}

}  // namespace

void update_averages(CudaStream stream, float decay, std::span<AveragedWeights const> tensors) {
  for_all(stream, "update_averages", tensors, AddToAverage{decay});
}

void swap_averages_in(CudaStream stream, std::span<AveragedWeights const> tensors) {
  for_all(stream, "swap_averages_in", tensors, SwapIn{});
}

void swap_averages_out(CudaStream stream, std::span<AveragedWeights const> tensors) {
  for_all(stream, "swap_averages_out", tensors, SwapOut{});
}

}  // namespace msstream::ops::kernels
