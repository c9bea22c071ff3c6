// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/real_types.hpp"
#include "common/rounded.hpp"
#include "optimizer/averages.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace msstream::ops::kernels {

namespace {

constexpr std::int64_t kBytesOfPair = 4 * static_cast<std::int64_t>(sizeof(float));

/// Calls function(weights, average, kept, count) for ranges of all tensors, with pointers of the
/// type of the weights.
template <class Function>
void for_ranges(HostStream stream,
                std::span<AveragedWeights const> tensors,
                Function const& function) {
  stream.run([function, tensors = std::vector(tensors.begin(), tensors.end())] {
    for (auto const& tensor : tensors) {
      with_real_type("averages", tensor.dtype, [&]<class T>(std::type_identity<T>) {
        auto* const weights = static_cast<T*>(tensor.weights);
        auto* const kept = static_cast<T*>(tensor.kept);
        parallel_ranges(
            tensor.count, grain_of(kBytesOfPair), [&](std::int64_t begin, std::int64_t end) {
              function(weights + begin,
                       tensor.average + begin,
                       kept != nullptr ? kept + begin : nullptr,
                       end - begin);
            });
      });
    }
  });
}

struct SwapIn {
  template <class T>
  void operator()(T* weights, float* average, T* kept, std::int64_t count) const {
    if constexpr (std::is_same_v<T, float>) {
      std::swap_ranges(weights, weights + count, average);
    } else {
      if (kept != nullptr) {
        std::copy_n(weights, count, kept);
      }
      std::transform(average, average + count, weights, [](float x) { return from_float<T>(x); });
    }
  }
};
struct SwapOut {
  template <class T>
  void operator()(T* weights, float* average, T* kept, std::int64_t count) const {
    if constexpr (std::is_same_v<T, float>) {
      std::swap_ranges(weights, weights + count, average);
    } else {
      std::copy_n(kept, count, weights);
    }
  }
};

}  // namespace

void update_averages(HostStream stream, float decay, std::span<AveragedWeights const> tensors) {
  for_ranges(stream,
             tensors,
             [decay](auto const* weights, float* average, auto const*, std::int64_t count) {
               Rounded const kept{decay};
               Rounded const added = Rounded{1.0F} - kept;
               for (std::int64_t i = 0; i < count; ++i) {
                 average[i] =
                     (kept * Rounded{average[i]} + added * Rounded{to_float(weights[i])}).value;
               }
             });
}

void swap_averages_in(HostStream stream, std::span<AveragedWeights const> tensors) {
  for_ranges(stream, tensors, SwapIn{});
}

void swap_averages_out(HostStream stream, std::span<AveragedWeights const> tensors) {
  for_ranges(stream, tensors, SwapOut{});
}

}  // namespace msstream::ops::kernels
