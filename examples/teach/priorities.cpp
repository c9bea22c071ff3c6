// SPDX-License-Identifier: Apache-2.0
// Small urgent work overtakes a flood of other work if its streams have a higher priority.
#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace ms = msstream;
using R = ms::DefaultRuntime;

namespace {

constexpr bool kOnHost = R::name == ms::Host::name;
// The extent of the flood's matrices, large enough that the flood keeps the device busy.
constexpr std::int64_t kFloodSize = kOnHost ? 256 : 4096;
constexpr int kFlood = 20;

using Matrix = ms::Tensor<float, R>;

/// Returns the time in ms of a small product on a stream of the given priority while a flood of
/// large products keeps the device busy: the median of several measurements.
double urgent_ms(ms::Device<R> const& device, ms::StreamPriority priority) {
  ms::StreamPool<R> background(device, {.groups = 1, .priority = ms::StreamPriority::low});
  ms::StreamPool<R> urgent(device, {.groups = 1, .priority = priority});
  auto const square = [&](std::int64_t size, float value) {
    return ms::to_device(
        device, std::vector<float>(static_cast<std::size_t>(size * size), value), {size, size});
  };
  Matrix const large = square(kFloodSize, 1.0F);
  Matrix const small = square(64, 2.0F);
  auto const answer = [&] {
    ms::StreamScope const scope(urgent[0]);
    auto const elements = ms::to_host(ms::ops::matmul(small, small));
    teach::expect(elements.front() == 64 * 4.0F, "square of a constant matrix");
  };
  auto const flood = [&](int products) {
    ms::StreamScope const scope(background[0]);
    for (int i = 0; i < products; ++i) {
      (void)ms::ops::matmul(large, large);  // drops each result at once; the work still runs
    }
  };
  answer();  // warm up
  flood(1);
  background.synchronize();

  std::array<double, 9> milliseconds{};
  for (double& time : milliseconds) {
    flood(kFlood);
    time = teach::milliseconds_of(answer);
    background.synchronize();
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return milliseconds[milliseconds.size() / 2];
}

void priorities() {
  ms::Device device;
  double const low = urgent_ms(device, ms::StreamPriority::low);
  double const high = urgent_ms(device, ms::StreamPriority::high);
  std::cout << "an urgent [64, 64] product behind " << kFlood << " products of [" << kFloodSize
            << ", " << kFloodSize << "]\n"
            << "  on a stream of the flood's priority: " << low << " ms\n"
            << "  on a stream of high priority:        " << high << " ms\n";
  if constexpr (kOnHost) {
    std::cout << "The host runtime has no priorities: each stream is a thread, and the system "
                 "shares the cores among them. The two times differ by chance alone.\n";
  } else {
    std::cout << "Priorities choose among blocks that wait to start; blocks that run go on.\n";
  }
}

}  // namespace

int main() {
  return teach::run(priorities);
}
