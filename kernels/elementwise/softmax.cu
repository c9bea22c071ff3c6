// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/id_report.cuh"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "elementwise/long_rows.cuh"
#include "elementwise/reduce_lanes.cuh"
#include "elementwise/reduce_math.hpp"
#include "elementwise/rows_in_registers.cuh"
#include "elementwise/softmax.hpp"
#include "elementwise/softmax_math.hpp"

#include <cmath>
#include <cstdint>

namespace msstream::ops::kernels {

namespace {

/// Returns the number of columns of a row that take part in its softmax.
__device__ std::int64_t length_of(SoftmaxArgs const& args, std::int64_t row) {
  if (args.lengths == nullptr) {
    return args.columns;
  }
  std::int64_t const length = args.lengths[row / args.rows_a_length];
  return length < 0 ? 0 : min(length, args.columns);
}

// Rows in registers have values in columns that do not exist, too: -infinity, which changes neither
// a maximum nor a sum of exponentials. All kernels multiply by reciprocals of sums instead of
// dividing.

/// Returns exp(x) of a difference x of two elements of type T. For half precision, rounding x *
/// log2(e) costs |x| 2^-24 of the result, which is far less than rounding the elements has cost,
/// and takes a third of the instructions.
template <class T>
__device__ float exponential_of(float x) {
  if constexpr (sizeof(T) < sizeof(float)) {
    constexpr float kLog2OfE = 1.44269504F;
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * kLog2OfE));
    return result;
  } else {
    return std::exp(x);
  }
}
/// Replaces each value by the exponential of value - shift, and returns the thread's sum of them.
template <class T, int Count>
__device__ float exponentials_of(float (&values)[Count], float shift) {
  float sum = 0.0F;
#pragma unroll
  for (float& value : values) {
    value = exponential_of<T>(value - shift);
    sum += value;
  }
  return sum;
}
template <int Count>
__device__ float largest_of(float const (&values)[Count]) {
  float largest = values[0];
#pragma unroll
  for (int k = 1; k < Count; ++k) {
    largest = Largest::combine(largest, values[k]);
  }
  return largest;
}

/// The softmax of rows in registers.
template <class T, class Input>
struct Softmax {
  using In = Input;
  using Out = T;
  static constexpr int kInputs = 1;
  SoftmaxArgs args;
  Input absent;  ///< -infinity

  explicit Softmax(SoftmaxArgs const& of_rows)
      : args(of_rows), absent(from_float<Input>(-HUGE_VALF)) {}

  [[nodiscard]] __host__ __device__ std::int64_t rows() const { return args.rows; }
  [[nodiscard]] __host__ __device__ std::int64_t columns() const { return args.columns; }
  [[nodiscard]] __host__ __device__ Input const* input(int) const {
    return static_cast<Input const*>(args.input);
  }
  [[nodiscard]] __host__ __device__ T* output() const { return static_cast<T*>(args.output); }

  template <class Place>
  __device__ void operator()(typename Place::Team& team, Place const& place) const {
    constexpr int kRows = Place::kRows;
    int lengths[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      lengths[r] = place.exists(r) ? static_cast<int>(length_of(args, place.number(r))) : 0;
    }
    typename Place::Packed packed[kRows];
    place.load(0, lengths, absent, packed);
    float values[kRows][Place::kCount];
    Place::widen_to(values, packed);
    if (args.lengths != nullptr) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        place.for_each(lengths[r], [&](int k, int column) {
          values[r][k] = column < lengths[r] ? values[r][k] : -HUGE_VALF;
        });
      }
    }
    float largest[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      largest[r] = largest_of(values[r]);
    }
    team.template reduce<Largest>(largest);
    float sums[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums[r] = exponentials_of<Input>(values[r], largest[r]);
    }
    team.sum(sums);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums[r] = 1.0F / sums[r];
    }
    place.store([&](int r, int k, int column) {
      return column < lengths[r] ? values[r][k] * sums[r] : 0.0F;
    });
  }
};

/// The gradient of the softmax of rows in registers.
template <class T>
struct SoftmaxGradient {
  using In = T;
  using Out = T;
  static constexpr int kInputs = 2;
  SoftmaxGradientArgs args;

  [[nodiscard]] __host__ __device__ std::int64_t rows() const { return args.rows; }
  [[nodiscard]] __host__ __device__ std::int64_t columns() const { return args.columns; }
  [[nodiscard]] __host__ __device__ T const* input(int i) const {
    return static_cast<T const*>(i == 0 ? args.output : args.output_gradient);
  }
  [[nodiscard]] __host__ __device__ T* output() const {
    return static_cast<T*>(args.input_gradient);
  }

  template <class Place>
  __device__ void operator()(typename Place::Team& team, Place const& place) const {
    constexpr int kRows = Place::kRows;
    int widths[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      widths[r] = place.exists(r) ? place.width : 0;
    }
    typename Place::Packed outputs[kRows];
    typename Place::Packed gradients[kRows];
    place.load(0, widths, T{}, outputs);
    place.load(1, widths, T{}, gradients);
    float totals[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < Place::kCount; ++k) {
        totals[r] += weighted(at<Place>(outputs[r], k), at<Place>(gradients[r], k));
      }
      outputs[r].forget_widened();
      gradients[r].forget_widened();
    }
    team.sum(totals);
    place.store([&](int r, int k, int) {
      return gradient_of(at<Place>(outputs[r], k), at<Place>(gradients[r], k), totals[r]);
    });
  }

 private:
  template <class Place>
  static __device__ float at(typename Place::Packed const& packed, int k) {
    return packed.at(k / Place::kVector, k % Place::kVector);
  }
};

/// Returns the class of a row. Of the threads that share the row, the one with `notes` records a
/// bad class and whether the row counts.
__device__ ClassOfRow class_of(CrossEntropyArgs const& args,
                               std::int64_t row,
                               bool notes,
                               OutOfRangeIds& out_of_range) {
  ClassOfRow const chosen(args, row);
  if (notes && args.counted != nullptr) {
    args.counted[row] = chosen.counted;
  }
  if (notes && chosen.is_bad) {
    out_of_range.add(chosen.column);
  }
  return chosen;
}

/// The cross-entropy of rows in registers, and its gradients.
template <class T, class Gradient>
struct CrossEntropy {
  using In = T;
  using Out = Gradient;
  static constexpr int kInputs = 1;
  CrossEntropyArgs args;
  T absent;  ///< -infinity

  explicit CrossEntropy(CrossEntropyArgs const& of_rows)
      : args(of_rows), absent(from_float<T>(-HUGE_VALF)) {}

  [[nodiscard]] __host__ __device__ std::int64_t rows() const { return args.rows; }
  [[nodiscard]] __host__ __device__ std::int64_t columns() const { return args.columns; }
  [[nodiscard]] __host__ __device__ T const* input(int) const {
    return static_cast<T const*>(args.logits);
  }
  [[nodiscard]] __host__ __device__ Gradient* output() const {
    return static_cast<Gradient*>(args.gradients);
  }

  template <class Place>
  __device__ void operator()(typename Place::Team& team, Place const& place) const {
    constexpr int kRows = Place::kRows;
    OutOfRangeIds out_of_range;
    int widths[kRows];     // 0 for a row without loss
    int classes[kRows];    // -1 for a row without loss
    float weights[kRows];  // 0 for a row without loss
    float below[kRows];    // the logit of the class, then below_largest() of it
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      bool const exists = place.exists(r);
      // Lanes without a row of their own follow the last one, and write nothing.
      auto const row = exists ? place.number(r) : args.rows - 1;
      auto const chosen = class_of(args, row, exists && team.lane == 0, out_of_range);
      bool const counts = exists && chosen.counts;
      widths[r] = counts ? place.width : 0;
      classes[r] = counts ? static_cast<int>(chosen.column) : -1;
      weights[r] = counts ? chosen.weight : 0.0F;
      below[r] = counts ? widen(place.input(0, r)[classes[r]]) : 0.0F;
    }
    report_out_of_range(args.report, out_of_range, args.columns);
    typename Place::Packed packed[kRows];
    place.load(0, widths, absent, packed);
    float values[kRows][Place::kCount];
    Place::widen_to(values, packed);
    if (args.candidates != nullptr) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        leave_out_hits(place, widths[r], classes[r], values[r]);
      }
    }
    float largest[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      largest[r] = largest_of(values[r]);
    }
    team.template reduce<Largest>(largest);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      below[r] = below_largest(below[r], largest[r]);
      subtract_largest(values[r], widths[r] == 0 ? 0.0F : largest[r]);
    }
    SmoothedTarget const target(args);
    float totals[kRows] = {};
    if (args.smoothing != 0.0F) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        place.for_each(widths[r], [&](int k, int) { totals[r] += values[r][k]; });
      }
      team.sum(totals);
    }
    float sums[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums[r] = exponentials_of<T>(values[r], 0.0F);
    }
    team.sum(sums);
    float others[kRows];  // the weighted target of columns that are not the class
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      bool const counts = widths[r] != 0;
      if (team.lane == 0 && place.exists(r)) {
        args.losses[place.number(r)] =
            counts ? weights[r] * target.loss(std::log(sums[r]), below[r], totals[r]) : 0.0F;
      }
      sums[r] = counts ? weights[r] / sums[r] : 0.0F;
      others[r] = counts ? weights[r] * target.of_each : 0.0F;
    }
    place.store([&](int r, int k, int) { return values[r][k] * sums[r] - others[r]; });
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (widths[r] != 0 && place.has(classes[r])) {
        float const probability = exponential_of<T>(below[r]) * sums[r];
        place.row_of_output(r)[classes[r]] =
            narrowed<Gradient>(probability - weights[r] * target.at(true));
      }
    }
  }

 private:
  /// Sets the logits of columns that have the id of the class, but are others, to -infinity.
  template <class Place>
  __device__ void leave_out_hits(Place const& place,
                                 int width,
                                 int of_class,
                                 float (&values)[Place::kCount]) const {
    std::int64_t const id = width == 0 ? 0 : args.candidates[of_class];
    place.for_each(width, [&](int k, int column) {
      bool const is_hit = column != of_class && args.candidates[column] == id;
      values[k] = is_hit ? -HUGE_VALF : values[k];
    });
  }
  /// Replaces each value by below_largest().
  template <int Count>
  static __device__ void subtract_largest(float (&values)[Count], float largest) {
    if (largest == HUGE_VALF) {
#pragma unroll
      for (float& value : values) {
        value = value == largest ? 0.0F : -HUGE_VALF;
      }
      return;
    }
#pragma unroll
    for (float& value : values) {
      value -= largest;
    }
  }
};

// Rows that are too long for registers are read several times, at best from the cache.

template <class T, class Input>
__global__ void __launch_bounds__(kBlockThreads)
    softmax_of_long_rows_kernel(__grid_constant__ SoftmaxArgs const args) {
  std::int64_t const row = blockIdx.x;
  std::int64_t const length = length_of(args, row);
  auto const* const input = static_cast<Input const*>(args.input) + row * args.columns;
  auto* const output = static_cast<T*>(args.output) + row * args.columns;
  float largest = Largest::nothing();
  for_each_of_block(length, [&](std::int64_t column) {
    largest = Largest::combine(largest, widen(input[column]));
  });
  largest = reduce_block<Largest>(largest);
  auto const exponential = [&](std::int64_t column) {
    return exponential_of<Input>(widen(input[column]) - largest);
  };
  LongSum exponentials;
  for_each_of_block(
      length,
      [&](std::int64_t column) { exponentials.add(exponential(column)); },
      [&] { exponentials.fold(); });
  float const scale = 1.0F / reduce_block<Total>(exponentials.get());
  for_each_of_block(args.columns, [&](std::int64_t column) {
    output[column] = narrowed<T>(column < length ? exponential(column) * scale : 0.0F);
  });
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    gradient_of_long_rows_kernel(__grid_constant__ SoftmaxGradientArgs const args) {
  std::int64_t const first = static_cast<std::int64_t>(blockIdx.x) * args.columns;
  auto const* const output = static_cast<T const*>(args.output) + first;
  auto const* const output_gradient = static_cast<T const*>(args.output_gradient) + first;
  auto* const input_gradient = static_cast<T*>(args.input_gradient) + first;
  LongSum products;
  for_each_of_block(
      args.columns,
      [&](std::int64_t column) {
        products.add(weighted(widen(output[column]), widen(output_gradient[column])));
      },
      [&] { products.fold(); });
  float const total = reduce_block<Total>(products.get());
  for_each_of_block(args.columns, [&](std::int64_t column) {
    input_gradient[column] =
        narrowed<T>(gradient_of(widen(output[column]), widen(output_gradient[column]), total));
  });
}

template <class T, class Gradient, bool kHasCandidates>
__global__ void __launch_bounds__(kBlockThreads)
    cross_entropy_of_long_rows_kernel(__grid_constant__ CrossEntropyArgs const args) {
  std::int64_t const row = blockIdx.x;
  OutOfRangeIds out_of_range;
  auto const chosen = class_of(args, row, threadIdx.x == 0, out_of_range);
  report_out_of_range(args.report, out_of_range, args.columns);
  auto* const gradients = static_cast<Gradient*>(args.gradients) + row * args.columns;
  if (!chosen.counts) {
    // The logits of the row are not read: its class may lie outside the array.
    for_each_of_block(args.columns,
                      [&](std::int64_t column) { gradients[column] = narrowed<Gradient>(0.0F); });
    if (threadIdx.x == 0) {
      args.losses[row] = 0.0F;
    }
    return;
  }
  LogitsOfRow<T> logits(args, row, chosen.column);
  if constexpr (!kHasCandidates) {
    logits.candidates = nullptr;  // so that no load waits for a comparison
  }
  float largest = Largest::nothing();
  for_each_of_block(args.columns, [&](std::int64_t column) {
    largest = Largest::combine(largest, logits.at(column));
  });
  largest = reduce_block<Largest>(largest);
  auto const below = [&](std::int64_t column) { return below_largest(logits.at(column), largest); };
  LongSum exponentials;
  for_each_of_block(
      args.columns,
      [&](std::int64_t column) { exponentials.add(exponential_of<T>(below(column))); },
      [&] { exponentials.fold(); });
  float const sum = reduce_block<Total>(exponentials.get());
  SmoothedTarget const target(args);
  float total = 0.0F;
  if (args.smoothing != 0.0F) {
    LongSum of_all;
    for_each_of_block(
        args.columns,
        [&](std::int64_t column) { of_all.add(below(column)); },
        [&] { of_all.fold(); });
    total = reduce_block<Total>(of_all.get());
  }
  float const scale = chosen.weight / sum;
  for_each_of_block(args.columns, [&](std::int64_t column) {
    gradients[column] = narrowed<Gradient>(exponential_of<T>(below(column)) * scale -
                                           chosen.weight * target.at(column == chosen.column));
  });
  if (threadIdx.x == 0) {
    args.losses[row] = chosen.weight * target.loss(std::log(sum), below(chosen.column), total);
  }
}

}  // namespace

void softmax(CudaStream stream, SoftmaxArgs const& args) {
  if (args.rows == 0 || args.columns == 0) {
    return;
  }
  auto const launch = [&](auto type, auto input_type) {
    using T = typename decltype(type)::type;
    using Input = typename decltype(input_type)::type;
    if (Softmax<T, Input> const function(args); fits_registers(function)) {
      launch_in_registers(stream.handle, function);
    } else {
      softmax_of_long_rows_kernel<T, Input>
          <<<grid_for(args.rows, 1), kBlockThreads, 0, stream.handle>>>(args);
    }
  };
  with_real_types("softmax: an output", args.dtype, args.input_dtype, launch);
  check_launch("softmax");
}

void softmax_gradient(CudaStream stream, SoftmaxGradientArgs const& args) {
  if (args.rows == 0 || args.columns == 0) {
    return;
  }
  with_real_type("softmax_gradient: an output", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (SoftmaxGradient<T> const function{args}; fits_registers(function)) {
      launch_in_registers(stream.handle, function);
    } else {
      gradient_of_long_rows_kernel<T>
          <<<grid_for(args.rows, 1), kBlockThreads, 0, stream.handle>>>(args);
    }
  });
  check_launch("softmax_gradient");
}

void softmax_cross_entropy(CudaStream stream, CrossEntropyArgs const& args) {
  if (args.rows == 0) {
    return;
  }
  auto const launch = [&](auto type, auto gradient_type) {
    using T = typename decltype(type)::type;
    using Gradient = typename decltype(gradient_type)::type;
    if (CrossEntropy<T, Gradient> const function(args); fits_registers(function)) {
      launch_in_registers(stream.handle, function);
    } else {
      auto* const kernel = args.candidates == nullptr
                               ? cross_entropy_of_long_rows_kernel<T, Gradient, false>
                               : cross_entropy_of_long_rows_kernel<T, Gradient, true>;
      kernel<<<grid_for(args.rows, 1), kBlockThreads, 0, stream.handle>>>(args);
    }
  };
  with_real_types("softmax_cross_entropy: logits", args.dtype, args.gradient_dtype, launch);
  check_launch("softmax_cross_entropy");
}

}  // namespace msstream::ops::kernels
