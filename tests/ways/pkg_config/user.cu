// SPDX-License-Identifier: Apache-2.0
// A file of a user with a kernel, which nvcc compiles with the flags of pkg-config. It uses what
// needs each of them: C++20, the library's headers, and fmt in constant expressions.
#include <msstream/base/format.hpp>
#include <msstream/base/shape.hpp>

#include <cstdio>

__global__ void fill(float* values, int count) {
  if (auto const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count) {
    values[i] = 1.0F;
  }
}

int main() {
  msstream::Shape const shape{2, 3};
  fill<<<1, 256>>>(nullptr, 0);
  std::puts(fmt::format("{} with CUDA {}", shape, MSSTREAM_CUDA).c_str());
  return shape.count() == 6 ? 0 : 1;
}
