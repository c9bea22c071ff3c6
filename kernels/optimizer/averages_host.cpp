// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"
#include "common/rounded.hpp"
#include "optimizer/averages.hpp"

#include <algorithm>
#include <vector>

namespace msstream::ops::kernels {

namespace {

constexpr std::int64_t kBytesOfPair = 4 * static_cast<std::int64_t>(sizeof(float));

/// Calls function(weights, average, count) for ranges of all tensors.
template <class Function>
void for_ranges(HostStream stream,
                std::span<AveragedWeights const> tensors,
                Function const& function) {
  stream.run([function, tensors = std::vector(tensors.begin(), tensors.end())] {
    for (auto const& tensor : tensors) {
      parallel_ranges(
          tensor.count, grain_of(kBytesOfPair), [&](std::int64_t begin, std::int64_t end) {
            function(tensor.weights + begin, tensor.average + begin, end - begin);
          });
    }
  });
}

}  // namespace

void update_averages(HostStream stream, float decay, std::span<AveragedWeights const> tensors) {
  for_ranges(stream, tensors, [decay](float const* weights, float* average, std::int64_t count) {
    Rounded const kept{decay};
    Rounded const added = Rounded{1.0F} - kept;
    for (std::int64_t i = 0; i < count; ++i) {
      average[i] = (kept * Rounded{average[i]} + added * Rounded{weights[i]}).value;
    }
  });
}

void swap_averages(HostStream stream, std::span<AveragedWeights const> tensors) {
  for_ranges(stream, tensors, [](float* weights, float* average, std::int64_t count) {
    std::swap_ranges(weights, weights + count, average);
  });
}

}  // namespace msstream::ops::kernels
