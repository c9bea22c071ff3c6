// SPDX-License-Identifier: Apache-2.0
// A scope chooses the stream group of what its thread issues. Scopes nest, and threads have their
// own.
#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <string>
#include <thread>
#include <vector>

namespace ms = msstream;

int main() {
  return teach::run([] {
    ms::Device device;
    ms::StreamPool pool(device, {.groups = 3});
    auto const input = ms::to_device(device, std::vector<float>(64 * 64, 1.0F), {64, 64});
    auto const say = [&](std::string const& where) {
      std::cout << where << ": " << device.current_group().name() << '\n';
    };
    auto const layer = [](auto const& x) { return ms::ops::relu(ms::ops::matmul(x, x)); };

    say("outside all scopes");
    std::vector<ms::Tensor<float>> towers;
    {
      ms::StreamScope const user(pool[0]);
      say("in the tower of the user");
      {
        ms::StreamScope const history(pool[1]);  // of the open scopes, the last one counts
        say("in the history of the user");
        towers.push_back(layer(input));
      }
      say("back in the tower of the user");
      towers.push_back(layer(input));
      std::thread([&] { say("on another thread"); }).join();
    }
    {
      ms::StreamScope const item(pool[2]);
      say("in the tower of the item");
      towers.push_back(layer(input));
    }
    auto const sum = ms::to_host(ms::ops::add(towers));
    teach::expect(sum.front() == 3 * 64, "three towers of 64 * 1 * 1");
  });
}
