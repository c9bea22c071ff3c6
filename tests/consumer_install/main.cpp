// SPDX-License-Identifier: Apache-2.0
// A first program that uses msstream, built by both consumer tests. It adds the results of two
// branches.
#include <msstream/msstream.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

#ifdef EIGEN_WORLD_VERSION
#error "a public header includes Eigen"
#endif

namespace ms = msstream;

int main() {
  // The program uses the host runtime even if the library has CUDA, because the machine may have no
  // GPU.
  ms::Device<ms::Host> const device;
  ms::StreamPool pool(device, {.groups = 2});
  ms::Tensor<float, ms::Host> const halves(device, {3});
  ms::Tensor<float, ms::Host> const quarters(device, {3});
  auto const fill = [](auto const& tensor, float value) {
    ms::issue("fill", ms::writes(tensor), [=](ms::HostStream stream) {
      stream.run([=] { std::fill_n(tensor.data(), tensor.count(), value); });
    });
  };
  {
    ms::StreamScope const branch(pool[0]);
    fill(halves, 0.5F);
  }
  {
    ms::StreamScope const branch(pool[1]);
    fill(quarters, 0.25F);
  }
  auto const sums = ms::to_host(ms::ops::add(std::vector{halves, quarters}));
  std::printf("%g, CUDA %d\n", sums.at(2), MSSTREAM_CUDA);
  return sums == std::vector<float>(3, 0.75F) ? 0 : 1;
}
