// SPDX-License-Identifier: Apache-2.0
// A program with a race, which a checking runtime reports; docs/finding-races.md explains both.
//
//     teach_finding_races            ends with a report of the race
//     teach_finding_races --fixed    orders the streams, and ends without an error
#include "own_kernel.hpp"
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ms = msstream;

namespace {

constexpr std::int64_t kCount = 1024;

/// Device memory that the program allocates itself: msstream does not order the work on it.
template <ms::Runtime R>
class Cache {
 public:
  explicit Cache(ms::Device<R> const& device)
      : device_(device), values_(static_cast<float*>(device.runtime().allocate_device(kBytes))) {}
  Cache(Cache const&) = delete;
  Cache& operator=(Cache const&) = delete;
  ~Cache() { device_.runtime().free_device(values_, kBytes); }

  [[nodiscard]] float* values() const { return values_; }

 private:
  static constexpr std::size_t kBytes = kCount * sizeof(float);

  ms::Device<R> device_;
  float* values_;
};

template <ms::Runtime R>
std::vector<float> through_the_cache(bool fixed) {
  ms::Device<R> const device;
  Cache<R> const cache(device);
  ms::StreamPool<R> pool(device, {.groups = 2});  // waits for its work before the cache is freed
  auto const input = ms::to_device(device, std::vector<float>(kCount, 1.0F), {kCount});
  ms::Tensor<float, R> const output(device, {kCount});
  // Lets the checking runtime see the uses of the cache. The program must order them itself.
  auto const cached = ms::raw_memory(device, cache.values(), kCount);

  {
    ms::StreamScope const refreshing(pool[0]);
    own::ScaleArgs const args{input.data(), cache.values(), 2.0F, kCount};
    ms::issue("refresh_cache", ms::reads(input), ms::writes(cached), [args](auto stream) {
      own::scale(stream, args);
    });
  }
  if (fixed) {
    pool[1].compute().wait(pool[0].compute().record());
  }
  {
    ms::StreamScope const answering(pool[1]);
    own::ScaleArgs const args{cache.values(), output.data(), 10.0F, kCount};
    ms::issue("read_cache", ms::reads(cached), ms::writes(output), [args](auto stream) {
      own::scale(stream, args);
    });
  }
  return ms::to_host(output);
}

template <ms::Runtime R>
void run(bool fixed) {
  auto const answers = through_the_cache<R>(fixed);
  teach::expect(std::all_of(answers.begin(), answers.end(), [](float x) { return x == 20.0F; }),
                "1 * 2 * 10 is 20 everywhere");
  std::cout << "all " << kCount << " values came through the cache\n";
}

}  // namespace

int main(int argc, char** argv) {
  bool const fixed = argc > 1 && std::string_view(argv[1]) == "--fixed";
  return teach::run([&] {
#if MSSTREAM_CUDA
    if (ms::Cuda::device_count() > 0) {
      return run<ms::Checked<ms::Cuda>>(fixed);
    }
#endif
    run<ms::Checked<ms::Host>>(fixed);
  });
}
