// SPDX-License-Identifier: Apache-2.0
// Which waits operations on three groups get, and which they do not need. The program runs on the
// simulator, where every run is the same.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/sim.hpp>

#include <string>
#include <vector>

namespace ms = msstream;
using R = ms::Sim;

int main() {
  return teach::run([] {
    ms::Device<R> const device({
        .runtime = {.schedule = ms::sim::by_time()},
        .explain_waits = [](std::string const& why) { std::cout << "  " << why << '\n'; },
    });
    ms::StreamPool<R> pool(device, {.groups = 3});
    auto const x = ms::to_device(device, std::vector<float>(1'000'000, 1.0F), {1'000'000});
    pool.synchronize();

    auto before = device.wait_counts();
    auto const say = [&](char const* what) {
      auto const now = device.wait_counts();
      std::cout << what << ": " << now.issued - before.issued << " issued, "
                << now.elided - before.elided << " left out\n";
      before = now;
    };
    auto const on = [&](int group, auto&& work) {
      ms::StreamScope const scope(pool[group]);
      return work();
    };
    auto const a = on(0, [&] { return ms::ops::scale(x, 2.0F); });
    say("a = 2 x on group 0");
    auto const b = on(1, [&] { return ms::ops::scale(a, 3.0F); });
    say("b = 3 a on group 1");
    auto const c = on(1, [&] { return ms::ops::add(std::vector{a, b}); });
    say("c = a + b on group 1");
    auto const d = on(2, [&] { return ms::ops::scale(c, 0.5F); });
    say("d = c / 2 on group 2");
    auto const e = on(2, [&] { return ms::ops::add(std::vector{a, d}); });
    say("e = a + d on group 2");
    teach::expect(ms::to_host(e).front() == 6.0F, "2 + (2 + 6) / 2");
  });
}
