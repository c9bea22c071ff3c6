// SPDX-License-Identifier: Apache-2.0
// Issues a kernel of your own with issue(), in a program that runs on a GPU and on the host.
#include "own_kernel.hpp"

#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <string_view>

namespace ms = msstream;

/// Multiplies a tensor by a factor: allocates the result, declares what the kernel reads and
/// writes, and launches the kernel.
template <ms::Runtime R>
ms::Tensor<float, R> scale(ms::Tensor<float, R> const& input, float factor) {
  ms::Tensor<float, R> output(input.device(), input.shape());
  own::ScaleArgs const args{input.data(), output.data(), factor, input.count()};
  // issue() calls the lambda with the stream of the current scope, before it returns. The lambda
  // captures the addresses by value. `stream` is a CudaStream or a HostStream, so overload
  // resolution picks the kernel for it.
  ms::issue("scale", ms::reads(input), ms::writes(output), [args](auto stream) {
    own::scale(stream, args);
  });
  return output;  // returns at once: the kernel may not have started
}

template <ms::Runtime R>
void scale_on_two_streams() {
  ms::Device<R> const device;
  ms::StreamPool<R> pool(device, {.groups = 2});
  auto x = ms::to_device(device, std::vector<float>{1, 2, 3, 4}, {4});
  for (int step = 0; step < 10; ++step) {
    // Each step reads the result of the step before, which was written on the other stream. The old
    // tensor is destroyed while its kernels may still run; its memory is reused only after them.
    ms::StreamScope const scope(pool[step % 2]);
    x = scale(x, 2.0F);
  }
  auto const result = ms::to_host(x);
  teach::expect(result == std::vector<float>{1024, 2048, 3072, 4096}, "2^10 times 1, 2, 3, 4");
  std::cout << R::name << ": 1 * 2^10 = " << result[0] << '\n';
}

int main() {
  return teach::run([] {
    scale_on_two_streams<ms::Host>();
#if MSSTREAM_CUDA
    if (ms::Cuda::device_count() > 0) {
      scale_on_two_streams<ms::Cuda>();
    } else {
      std::cout << "cuda: no GPU on this machine\n";
    }
#endif
  });
}
