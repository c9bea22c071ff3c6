// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/round_once.hpp"
#include "common/row_vector.cuh"
#include "common/vector_map.cuh"
#include "dense/factorization_machine.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

/// Neighbouring columns of a vector, which a thread works on. `kIsAligned` says that they can be
/// loaded at once.
template <class Element, int Columns, bool kIsAlignedToColumns>
struct VectorPart {
  using T = Element;
  static constexpr int kColumns = Columns;
  static constexpr bool kIsAligned = kIsAlignedToColumns;
  using Packed = PackedColumns<T, Columns>;

  static __device__ Packed load(T const* from) {
    if constexpr (kIsAligned) {
      return load_packed<Columns>(from);
    } else {
      detail::Unpacked<T, Columns> elements;
#pragma unroll
      for (int c = 0; c < Columns; ++c) {
        elements.at[c] = from[c];
      }
      return std::bit_cast<Packed>(elements);
    }
  }
};

template <class T>
bool fits(void const* address, int columns) {
  return reinterpret_cast<std::uintptr_t>(address) %
             (static_cast<std::size_t>(columns) * sizeof(T)) ==
         0;
}

/// Calls function(part), where `part` is a VectorPart of 16 bytes if the width allows that, or of
/// four elements, or of one. The width alone decides, so that the order of additions does not
/// depend on the address.
template <class T, int Bytes = 16, class Function>
void with_part_of_width(std::int64_t width, void const* address, Function const& function) {
  constexpr int kColumns = Bytes / static_cast<int>(sizeof(T));
  if constexpr (kColumns < 4) {
    function(VectorPart<T, 1, true>{});
  } else if (width % kColumns != 0) {
    with_part_of_width<T, Bytes / 2>(width, address, function);
  } else if (fits<T>(address, kColumns)) {
    function(VectorPart<T, kColumns, true>{});
  } else {
    function(VectorPart<T, kColumns, false>{});
  }
}

/// Returns the sum of the pairs of some columns of a sample's vectors.
template <class Part>
__device__ double sum_pairs(typename Part::T const* columns,
                            std::int64_t features,
                            std::int64_t width) {
  constexpr int kLoads = 8;
  static_assert(kTermsOfPart % kLoads == 0);
  PairSum sums[Part::kColumns];
  for (std::int64_t first = 0; first < features; first += kLoads) {
    // Loads that are not needed repeat the last one, so that no load waits for a branch.
    typename Part::Packed loaded[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      loaded[i] = Part::load(columns + min(first + i, features - 1) * width);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (first + i < features) {
        auto const values = loaded[i].widened();
#pragma unroll
        for (int c = 0; c < Part::kColumns; ++c) {
          sums[c].add(values.at[c]);
        }
      }
    }
    if ((first + kLoads) % kTermsOfPart == 0 || first + kLoads >= features) {
#pragma unroll
      for (int c = 0; c < Part::kColumns; ++c) {
        sums[c].fold();
      }
    }
  }
  double pairs = 0.0;
#pragma unroll
  for (int c = 0; c < Part::kColumns; ++c) {
    pairs += sums[c].pairs();
  }
  return pairs;
}

/// Computes a sample with 2^log2_lanes lanes of a warp:
///
///   lane l   parts l, l + lanes, l + 2 lanes, … of the sample's vectors, of all features
template <class Part>
__global__ void __launch_bounds__(kBlockThreads, 2)
    factorization_machine_kernel(__grid_constant__ FactorizationMachineArgs const args,
                                 int log2_lanes) {
  using T = typename Part::T;
  int const lanes = 1 << log2_lanes;
  int const lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  std::int64_t const sample = grid_thread() >> log2_lanes;
  bool const exists = sample < args.batch;
  double total = 0.0;
  if (exists) {
    auto const* const vectors =
        static_cast<T const*>(args.embeddings) + sample * args.features * args.width;
    for (std::int64_t column = lane * Part::kColumns; column < args.width;
         column += lanes * Part::kColumns) {
      total += sum_pairs<Part>(vectors + column, args.features, args.width);
    }
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    total += __shfl_xor_sync(kAllLanes, total, distance);
  }
  if (exists && lane == 0) {
    static_cast<T*>(args.output)[sample] = round_once<T>(total);
  }
}

/// Returns round_once<T>(number), apart from the bits of NaN. A conversion from or to float64 takes
/// as long as four additions of float64, and this function needs one of them for almost all
/// numbers, where round_once() needs two.
template <class T>
__device__ T round_once_quickly(double number) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(number);
  } else {
    float const towards_0 = __double2float_rz(number);
    constexpr int kLostBits = (1 << 29) - 1;  // those of float64 that a normal float does not have
    bool is_exact = (__double2loint(number) & kLostBits) == 0;
    if (fabsf(towards_0) < FLT_MIN) {
      double back = 0.0;
      asm volatile("cvt.f64.f32 %0, %1;" : "=d"(back) : "f"(towards_0));
      is_exact = back == number;
    }
    // Rounded to odd: see rounded_to_odd().
    return narrowed<T>(__uint_as_float(__float_as_uint(towards_0) | (is_exact ? 0U : 1U)));
  }
}

/// The sums of the columns of a part over the features, in float64, and the gradients by them. A
/// float32 sum would lose the small elements of a column with a large one, whose gradient is the
/// sum of the small.
template <class Part>
struct PartGradient {
  double of_output;
  double sums[Part::kColumns] = {};

  __device__ void add(typename Part::Packed const& packed) {
    auto const values = packed.widened();
#pragma unroll
    for (int c = 0; c < Part::kColumns; ++c) {
      sums[c] += static_cast<double>(values.at[c]);
    }
  }
  __device__ void store(typename Part::T* to, typename Part::Packed const& packed) const {
    auto const values = packed.widened();
    Pack<typename Part::T, Part::kColumns> gradients;
#pragma unroll
    for (int c = 0; c < Part::kColumns; ++c) {
      gradients.lanes[c] = round_once_quickly<typename Part::T>(
          of_output * (sums[c] - static_cast<double>(values.at[c])));
    }
    using Bits = decltype(Part::Packed::bits);
    // nvcc divides a plain store into stores of 4 bytes.
    __stwb(reinterpret_cast<Bits*>(to), std::bit_cast<Bits>(gradients));
  }
};

/// The most features whose vectors a thread keeps in registers, so that it loads them once.
constexpr int kFeaturesInRegisters = 32;

/// Computes the gradients of a part of a sample's vectors with each thread.
template <class Part, bool kInRegisters>
__global__ void __launch_bounds__(kBlockThreads, 2) factorization_machine_gradient_kernel(
    __grid_constant__ FactorizationMachineGradientArgs const args, std::int64_t parts) {
  using T = typename Part::T;
  std::int64_t const thread = grid_thread();
  // A division of 64 bits takes five times as long as one of 32.
  bool const is_narrow = thread <= std::numeric_limits<std::int32_t>::max();
  std::int64_t const sample =
      is_narrow ? static_cast<unsigned>(thread) / static_cast<unsigned>(parts) : thread / parts;
  if (sample >= args.batch) {
    return;
  }
  auto const width = args.width;
  auto const first = sample * args.features * width + (thread - sample * parts) * Part::kColumns;
  auto const* const columns = static_cast<T const*>(args.embeddings) + first;
  auto* const gradients = static_cast<T*>(args.input_gradient) + first;
  PartGradient<Part> gradient{
      static_cast<double>(widen(static_cast<T const*>(args.output_gradient)[sample]))};
  constexpr int kLoads = 8;
  if constexpr (kInRegisters) {
    auto const features = static_cast<int>(args.features);
    typename Part::Packed loaded[kFeaturesInRegisters];
#pragma unroll
    for (int begin = 0; begin < kFeaturesInRegisters; begin += kLoads) {
      if (begin < features) {
#pragma unroll
        for (int i = begin; i < begin + kLoads; ++i) {
          loaded[i] = Part::load(columns + min(i, features - 1) * width);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kFeaturesInRegisters; ++i) {
      if (i < features) {
        gradient.add(loaded[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kFeaturesInRegisters; ++i) {
      if (i < features) {
        gradient.store(gradients + i * width, loaded[i]);
      }
    }
  } else {
    auto const for_each = [&](auto const& use) {
      for (std::int64_t begin = 0; begin < args.features; begin += kLoads) {
        typename Part::Packed loaded[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          loaded[i] = Part::load(columns + min(begin + i, args.features - 1) * width);
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          if (begin + i < args.features) {
            use(begin + i, loaded[i]);
          }
        }
      }
    };
    for_each([&](std::int64_t /*feature*/, auto const& packed) { gradient.add(packed); });
    for_each([&](std::int64_t feature, auto const& packed) {
      gradient.store(gradients + feature * width, packed);
    });
  }
}

}  // namespace

void factorization_machine(CudaStream stream, FactorizationMachineArgs const& args) {
  if (args.batch == 0) {
    return;
  }
  with_real_type("factorization_machine: a vector", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_part_of_width<T>(args.width, args.embeddings, [&](auto part) {
      using Part = decltype(part);
      auto const parts = std::clamp<std::int64_t>(args.width / Part::kColumns, 1, 32);
      int const log2_lanes = std::bit_width(static_cast<unsigned>(parts - 1));
      factorization_machine_kernel<Part>
          <<<grid_for(args.batch, kBlockThreads >> log2_lanes), kBlockThreads, 0, stream.handle>>>(
              args, log2_lanes);
    });
  });
  check_launch("factorization_machine");
}

void factorization_machine_gradient(CudaStream stream,
                                    FactorizationMachineGradientArgs const& args) {
  if (args.batch * args.features * args.width == 0) {
    return;
  }
  with_real_type("factorization_machine_gradient: a vector", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    auto const launch = [&](auto part) {
      using Part = decltype(part);
      auto const parts = args.width / Part::kColumns;
      auto* const kernel = args.features <= kFeaturesInRegisters
                               ? factorization_machine_gradient_kernel<Part, true>
                               : factorization_machine_gradient_kernel<Part, false>;
      kernel<<<grid_for(args.batch * parts, kBlockThreads), kBlockThreads, 0, stream.handle>>>(
          args, parts);
    };
    // Each column is added up alone: how many a thread has changes no bit.
    constexpr int kColumns = 8 / static_cast<int>(sizeof(T));
    if (args.width % kColumns == 0 && fits<T>(args.embeddings, kColumns) &&
        fits<T>(args.input_gradient, kColumns)) {
      launch(VectorPart<T, kColumns, true>{});
    } else {
      launch(VectorPart<T, 1, true>{});
    }
  });
  check_launch("factorization_machine_gradient");
}

}  // namespace msstream::ops::kernels
