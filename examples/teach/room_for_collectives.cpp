// SPDX-License-Identifier: Apache-2.0
// Matrix products that leave multiprocessors to a collective beside them, and a collective that
// takes no more than these. On the host runtime, the options have no effect.
#include "teach.hpp"

#include <msstream/comm/collectives.hpp>
#include <msstream/comm/communicator.hpp>
#include <msstream/comm/world.hpp>
#include <msstream/msstream.hpp>

#include <vector>

namespace ms = msstream;
using R = ms::Host;

namespace {

void multiply_and_sum(ms::comm::World const& world) {
  ms::Device<R> const device;
  ms::StreamPool<R> const pool(device, {.groups = 2, .spared_sms = 16});
  ms::comm::Communicator<R> const ranks(device, world, {.most_sms = 16});

  auto const x = ms::to_device(device, std::vector<float>(4'096, 1.0F), {64, 64});
  auto const gradient = ms::to_device(device, std::vector<float>(1'000, 0.5F), {1'000});
  ms::comm::all_reduce(ranks, gradient, ms::comm::Reduction::sum);
  ms::StreamScope const scope(pool[0]);
  auto const product = ms::ops::matmul(x, x);  // beside the sum of the gradients
  teach::expect(ms::to_host(product)[0] == 64, "64 times 1");
  teach::expect(ms::to_host(gradient)[0] == 0.5F * static_cast<float>(world.size()), "the sum");
}

}  // namespace

int main() {
  return teach::run([] { ms::comm::run_as_threads(2, multiply_and_sum); });
}
