// SPDX-License-Identifier: Apache-2.0
// Independent matrix products on 1, 2 and 4 stream groups: when do more streams help?
#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <thread>
#include <vector>

namespace ms = msstream;
using R = ms::DefaultRuntime;

namespace {

// The extent of the square matrices: one product fills a small part of a GPU, or one core of the
// host.
constexpr std::int64_t kSize = 256;
constexpr int kProducts = 64;

using Matrix = ms::Tensor<float, R>;

double milliseconds_on(int groups, ms::Device<R> const& device, std::vector<Matrix> const& inputs) {
  ms::StreamPool<R> pool(device, {.groups = groups});
  std::vector<Matrix> products;
  auto const multiply_all = [&] {
    products.clear();
    for (int i = 0; i < kProducts; ++i) {
      ms::StreamScope const scope(pool[i % groups]);
      auto const& input = inputs[static_cast<std::size_t>(i)];
      products.push_back(ms::ops::matmul(input, input));
    }
    pool.synchronize();
  };
  multiply_all();  // warm up
  double const milliseconds = teach::milliseconds_of(multiply_all);
  for (int i = 0; i < kProducts; ++i) {
    // If all elements of a matrix are i, all elements of its square are i * i * kSize.
    auto const product = ms::to_host(products[static_cast<std::size_t>(i)]);
    teach::expect(product[product.size() / 2] ==
                      static_cast<float>(i) * static_cast<float>(i) * static_cast<float>(kSize),
                  "square of a constant matrix");
  }
  return milliseconds;
}

void matmul_streams() {
  ms::Device device;
  std::vector<Matrix> inputs;
  for (int i = 0; i < kProducts; ++i) {
    inputs.push_back(ms::to_device(
        device, std::vector<float>(kSize * kSize, static_cast<float>(i)), {kSize, kSize}));
    inputs.back().freeze();  // only read from here on, so its readers need not be tracked
  }
  double const alone = milliseconds_on(1, device, inputs);
  std::cout << kProducts << " products of [" << kSize << ", " << kSize << "]\n"
            << "groups   ms   times faster\n";
  std::cout << "1        " << alone << "   1\n";
  for (int const groups : {2, 4}) {
    double const together = milliseconds_on(groups, device, inputs);
    std::cout << groups << "        " << together << "   " << alone / together << '\n';
  }
  if constexpr (R::name == ms::Host::name) {
    std::cout << "Each group is a thread here, and this machine runs "
              << std::thread::hardware_concurrency()
              << " at once: more groups than that gain nothing.\n";
  } else {
    std::cout << "One product leaves most of the GPU idle, so several run beside each other, until "
                 "the GPU is full or one thread cannot issue faster.\n";
  }
}

}  // namespace

int main() {
  return teach::run(matmul_streams);
}
