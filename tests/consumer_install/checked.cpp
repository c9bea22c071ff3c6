// SPDX-License-Identifier: Apache-2.0
// A user's program that defines MSSTREAM_CHECKED=1 and links the installed library. Its default
// runtime checks, and finds a race.
#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>

#include <array>
#include <cstdio>
#include <type_traits>

namespace ms = msstream;

static_assert(std::is_same_v<ms::DefaultRuntime, ms::Checked<ms::PlainDefaultRuntime>>);

int main() {
  // The program uses the host runtime even if the library has CUDA, because the machine may have no
  // GPU.
  ms::Device<ms::Checked<ms::Host>> const device;
  ms::StreamPool pool(device, {.groups = 2});
  std::array<float, 4> cache{};  // memory of the program, which must order its uses itself
  auto const cached = ms::raw_memory(device, cache.data(), cache.size());
  try {
    for (int group = 0; group < 2; ++group) {
      ms::StreamScope const scope(pool[group]);
      ms::issue("refresh", ms::writes(cached), [](ms::HostStream) {});
    }
    pool.synchronize();
  } catch (ms::RaceError const& race) {
    std::printf("%s\n", race.what());
    return 0;
  }
  std::puts("the race was not found");
  return 1;
}
