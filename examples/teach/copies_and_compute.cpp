// SPDX-License-Identifier: Apache-2.0
// Compares copies to the device from pinned memory, which overlap with the device's computations,
// with copies from pageable memory, which block the host.
#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <numeric>
#include <vector>

namespace ms = msstream;
using R = ms::DefaultRuntime;

namespace {

constexpr int kChunks = 8;
constexpr std::int64_t kRows = 8192;
constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kChunkElements = kRows * kWidth;  // 4 MiB

using Matrix = ms::Tensor<float, R>;

/// Copies from pinned memory, which the copy engine reads while the host continues and the GPU
/// computes.
Matrix copy_pinned(ms::Device<R> const& device, ms::PinnedArray<float, R> const& source) {
  Matrix chunk(device, {kRows, kWidth}, ms::StreamKind::h2d);
  ms::copy(chunk, source);  // on the group's h2d stream
  return chunk;
}

/// Copies from ordinary memory, which the system may move. CUDA first copies it into a pinned
/// buffer of its own and blocks the calling thread meanwhile, so the next kernel is issued late.
/// The library offers no copy from pageable memory: this function calls the runtime in issue().
Matrix copy_pageable(ms::Device<R> const& device, std::vector<float> const& source) {
  Matrix chunk(device, {kRows, kWidth}, ms::StreamKind::h2d);
  auto& runtime = device.runtime();
  auto const native = device.current_group().h2d().native();
  ms::issue("pageable_h2d",
            ms::writes(chunk),
            [&](auto) {
              runtime.copy(chunk.data(), source.data(), chunk.bytes(), ms::CopyKind::h2d, native);
            },
            {.stream = ms::StreamKind::h2d});
  return chunk;
}

/// Copies each chunk to the device and multiplies it by the weight. The copy of a chunk does not
/// depend on the product of the chunk before it, so the two may overlap. Prints the times and a
/// timeline.
template <class CopyChunk>
void run(char const* from, ms::Device<R> const& device, Matrix const& weight, CopyChunk&& copy) {
  std::vector<Matrix> products;
  device.start_spans();
  double const issuing_ms = teach::milliseconds_of([&] {
    for (int i = 0; i < kChunks; ++i) {
      products.push_back(ms::ops::matmul(copy(i), weight));
    }
  });
  auto const timeline = device.stop_spans();  // waits until the recorded work is complete
  std::cout << "from " << from << " memory: " << timeline.length_ns() / 1e6 << " ms, of which "
            << timeline.overlapped_ns() / 1e6
            << " ms with a copy beside a matmul; the host was busy " << issuing_ms << " ms\n"
            << timeline.draw();
  for (int i = 0; i < kChunks; ++i) {
    // Every element of chunk i is i, and every element of the weight is 1.
    auto const product = ms::to_host(products[static_cast<std::size_t>(i)]);
    teach::expect(product.front() == static_cast<float>(i * kWidth) &&
                      product.back() == static_cast<float>(i * kWidth),
                  "row of i times column of 1");
  }
}

void copies_and_compute() {
  ms::Device device;
  auto const weight =
      ms::to_device(device, std::vector<float>(kWidth * kWidth, 1.0F), {kWidth, kWidth});
  std::vector<ms::PinnedArray<float, R>> pinned;
  std::vector<std::vector<float>> pageable;
  for (int i = 0; i < kChunks; ++i) {
    pageable.emplace_back(kChunkElements, static_cast<float>(i));
    pinned.emplace_back(device, kChunkElements);
    std::copy(pageable.back().begin(), pageable.back().end(), pinned.back().data());
  }
  auto const chunk_of = [](auto const& all, int i) -> auto const& {
    return all[static_cast<std::size_t>(i)];
  };
  auto const from_pinned = [&](int i) { return copy_pinned(device, chunk_of(pinned, i)); };
  auto const from_pageable = [&](int i) { return copy_pageable(device, chunk_of(pageable, i)); };

  for (int i = 0; i < kChunks; ++i) {  // warm up: allocate, load kernels
    (void)ms::ops::matmul(from_pinned(i), weight);
  }
  device.default_group().synchronize();
  run("pinned", device, weight, from_pinned);
  run("pageable", device, weight, from_pageable);
  if constexpr (R::name == ms::Host::name) {
    std::cout << "The host runtime copies with a thread, from any memory: both look the same here. "
                 "On a GPU they do not.\n";
  }
}

}  // namespace

int main() {
  return teach::run(copies_and_compute);
}
