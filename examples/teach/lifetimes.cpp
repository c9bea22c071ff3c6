// SPDX-License-Identifier: Apache-2.0
// How long memory lives: for work that issue() knows, for work that you launch yourself, and for an
// address that was kept too long, which a checking runtime reports.
#include "own_kernel.hpp"
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>

#include <string>
#include <vector>

namespace ms = msstream;
using R = ms::Checked<ms::Host>;

int main() {
  return teach::run([] {
    ms::Device<R> const device({.runtime = {.check = {.mode = ms::CheckMode::throw_error}}});
    ms::StreamPool<R> pool(device, {.groups = 2});
    constexpr std::int64_t kCount = 1024;
    auto const result = ms::zeros<float>(device, {kCount});

    {
      auto const temporary = ms::to_device(device, std::vector<float>(kCount, 1.0F), {kCount});
      ms::StreamScope const scope(pool[0]);
      own::ScaleArgs const args{temporary.data(), result.data(), 2.0F, kCount};
      ms::issue("scale", ms::reads(temporary), ms::writes(result), [args](auto stream) {
        own::scale(stream, args);
      });
    }  // the handle is gone; the memory is in use until the kernel has read it
    auto const doubled = ms::to_host(result);
    teach::expect(doubled.front() == 2.0F, "the kernel has read the temporary tensor");
    std::cout << "a temporary tensor: " << doubled.front() << '\n';

    {
      auto const stream = pool[1].compute();
      ms::TensorHolder holder(stream);
      holder.hold(result);  // the stream waits for earlier uses of the tensor
      device.runtime().fill(result.data(), 0, result.bytes(), stream.native());
    }  // later uses of the tensor wait for the stream
    std::cout << "work without issue(): " << ms::to_host(result).front() << '\n';

    auto const address = ms::Tensor<float, R>(device, {kCount}).data();  // the tensor is gone
    try {
      own::ScaleArgs const args{address, result.data(), 2.0F, kCount};
      auto const kept = ms::raw_memory(device, address, kCount);
      ms::issue("late", ms::reads(kept), ms::writes(result), [args](auto stream) {
        own::scale(stream, args);
      });
      teach::expect(false, "the use after free is reported");
    } catch (ms::RaceError const& error) {
      std::cout << "an address that was kept: " << name_of(error.report().kind) << '\n'
                << error.report().message << '\n';
    }
  });
}
