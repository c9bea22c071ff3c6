// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/msstream.hpp>

#include <algorithm>
#include <cstdint>

namespace benchmarks {

namespace ms = msstream;

/// Writes max(x, 0) for each of `count` elements.
inline void rectify(ms::HostStream stream, float const* input, float* output, std::int64_t count) {
  stream.run([=] {
    std::transform(input, input + count, output, [](float x) { return std::max(x, 0.0F); });
  });
}

#if MSSTREAM_CUDA
void rectify(ms::CudaStream stream, float const* input, float* output, std::int64_t count);
#endif

/// Writes the ReLU of a tensor into another one of its shape, such as one that ranks share.
template <ms::Runtime R>
void rectify(ms::Tensor<float, R> const& input, ms::Tensor<float, R> const& output) {
  auto const* const from = input.data();
  auto* const to = output.data();
  auto const count = input.count();
  ms::issue("rectify", ms::reads(input), ms::writes(output), [=](auto stream) {
    rectify(stream, from, to, count);
  });
}

}  // namespace benchmarks
