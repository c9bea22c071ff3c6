// SPDX-License-Identifier: Apache-2.0
// Two operations that count keys into memory of the program, by atomic additions on two streams at
// once. They commute, so a checking runtime requires no order between them.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ms = msstream;
using R = ms::Checked<ms::Host>;

namespace {

constexpr std::size_t kBins = 256;

/// Adds 1 to the bin of each key. On a GPU, this is a kernel with atomicAdd().
void count_keys(ms::HostStream stream,
                std::int64_t const* keys,
                std::int64_t count,
                std::int64_t* bins) {
  stream.run([=] {
    for (std::int64_t i = 0; i < count; ++i) {
      std::atomic_ref(bins[keys[i]]).fetch_add(1);
    }
  });
}

}  // namespace

int main() {
  return teach::run([] {
    std::vector<std::int64_t> of_keys;
    for (std::int64_t i = 0; i < 4'000; ++i) {
      of_keys.push_back(i * 7 % 256);
    }
    ms::Device<R> const device;
    auto* const bins =
        static_cast<std::int64_t*>(device.runtime().allocate_device(kBins * sizeof(std::int64_t)));
    std::fill_n(bins, kBins, 0);
    {
      ms::StreamPool<R> pool(device, {.groups = 2});
      auto const all = ms::to_device(device, of_keys, {4'000});
      for (std::int64_t part = 0; part < 2; ++part) {
        ms::StreamScope const scope(pool[static_cast<int>(part)]);
        auto const keys = all.rows(part * 2'000, (part + 1) * 2'000);
        ms::issue("histogram",
                  ms::reads(keys),
                  ms::accumulates(ms::raw_memory(device, bins, kBins)),
                  [keys = keys.data(), count = keys.count(), bins](auto stream) {
                    count_keys(stream, keys, count, bins);
                  });
      }
    }  // the pool waits for its work
    auto const total = std::accumulate(bins, bins + kBins, std::int64_t{0});
    device.runtime().free_device(bins, kBins * sizeof(std::int64_t));
    teach::expect(total == 4'000, "every key is counted");
  });
}
