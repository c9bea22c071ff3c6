// SPDX-License-Identifier: Apache-2.0
#include "suite.hpp"

#if MSSTREAM_BENCHMARK_NCCL
#include "comm/ranks.hpp"
#endif

#include <msstream/comm/collectives.hpp>
#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Benchmarks of exchanges between all GPUs of the machine, as medians over batches, all ways by
/// turns.
///
/// `counted`: a captured all-to-all with counts on the device, half of whose capacity is filled
/// (`half_us`) and all of it (`full_us`, `half_ratio`), and what it takes NCCL, which sends the
/// whole capacity (`nccl_us`, `nccl_ratio`).
///
/// `products`: bfloat16 matrix products of 8,192 x 4,096 x 4,096 alone (`alone_us`, of one), and
/// beside all-to-alls without end, on copy engines (`engines_ratio`), by kernels (`kernels_ratio`)
/// and by NCCL (`nccl_ratio`), each with its least and most.
namespace benchmarks {

#if MSSTREAM_BENCHMARK_NCCL

namespace {

namespace ms = msstream;

using R = ms::Cuda;
using Floats = ms::Tensor<float, R>;

constexpr int kBatches = 9;  ///< whose median is reported
constexpr int kWarmUps = 2;

/// Reports the ratios of two batches each: the median, the least and the most.
void report_ratio(benchmark::State& state,
                  std::string const& name,
                  std::vector<double> const& times,
                  std::vector<double> const& over) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.size(); ++i) {
    ratios.push_back(times[i] / over[i]);
  }
  auto const [least, most] = std::ranges::minmax(ratios);
  state.counters[name] = median(ratios);
  state.counters[name + "_least"] = least;
  state.counters[name + "_most"] = most;
}

/// Runs a function on all GPUs, each rank a thread, and returns what it returns on rank 0.
template <class Result, class OnRank>
[[nodiscard]] Result of_first_rank(OnRank const& on_rank) {
  int const ranks = R::device_count();
  std::barrier<> all(ranks);
  Result first;
  ms::comm::run_as_threads(ranks, [&](ms::comm::World const& world) {
    Leaving const leaving{all};
    auto const own = on_rank(all, world);
    if (world.rank() == 0) {
      first = own;
    }
  });
  return first;
}

/// A captured step of exchanges with counts on one rank.
class Counted {
 public:
  static constexpr int kExchanges = 20;

  Counted(ms::comm::World const& world, bool peer_access, std::int64_t capacity, std::int64_t rows)
      : device_(ms::comm::device_of<R>(world)),
        ranks_(device_, world, {.peer_access = peer_access}),
        input_(device_, {world.size(), capacity, kWidth}),
        output_(device_, input_.shape()),
        counts_(ms::to_device(
            device_, std::vector(static_cast<std::size_t>(world.size()), rows), {world.size()})),
        received_(device_, {world.size()}) {
    ms::fill_bytes(input_, 0);
    step_.emplace(device_, [this] {
      for (int i = 0; i < kExchanges; ++i) {
        ms::comm::all_to_all(ranks_, input_, counts_, output_, received_);
      }
    });
  }
  void run() { step_->replay(); }
  void wait() { ranks_.synchronize(); }

  static constexpr std::int64_t kWidth = 128;

 private:
  ms::Device<R> device_;
  ms::comm::Communicator<R> ranks_;
  Floats input_;
  Floats output_;
  ms::Tensor<std::int64_t, R> counts_;
  ms::Tensor<std::int64_t, R> received_;
  std::optional<ms::CapturedStep<R>> step_;
};

void measure_counted(benchmark::State& state, std::int64_t bytes) {
  enum Way : std::size_t { half, full, nccl, ways };
  using Times = std::array<RoundTimes, ways>;
  auto const row_bytes = Counted::kWidth * static_cast<std::int64_t>(sizeof(float));
  auto const capacity = bytes / row_bytes;
  auto const times = of_first_rank<Times>([&](std::barrier<>& all, ms::comm::World const& world) {
    std::array<std::unique_ptr<Counted>, ways> exchanges{
        std::make_unique<Counted>(world, true, capacity, capacity / 2),
        std::make_unique<Counted>(world, true, capacity, capacity),
        std::make_unique<Counted>(world, false, capacity, capacity)};
    Times own;
    for (int batch = 0; batch < kBatches + kWarmUps; ++batch) {
      for (std::size_t way = 0; way < ways; ++way) {
        auto& exchange = *exchanges[way];
        time_batch(
            all, 4, own[way], [&] { exchange.run(); }, [&] { exchange.wait(); });
      }
      if (batch + 1 == kWarmUps) {
        own = {};
      }
    }
    return own;
  });
  auto const us = [&](Way way) { return median(times[way].device) / Counted::kExchanges * 1e-3; };
  state.counters["half_us"] = us(half);
  state.counters["full_us"] = us(full);
  state.counters["nccl_us"] = us(nccl);
  report_ratio(state, "half_ratio", times[half].device, times[full].device);
  report_ratio(state, "nccl_ratio", times[half].device, times[nccl].device);
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(us(half) * 1e-6);
  }
}

/// How an exchange beside products is carried out.
enum Beside : std::size_t { nothing, engines, kernels, nccl, besides };

/// Matrix products on one rank, beside exchanges.
class Products {
 public:
  static constexpr int kProducts = 16;

  explicit Products(ms::comm::World const& world)
      : device_(ms::comm::device_of<R>(world)),
        pool_(device_, {.groups = 1}),
        left_(device_, {8192, 4096}),
        right_(device_, {4096, 4096}),
        input_(device_, {kElements}) {
    ms::fill_bytes(left_, 0);
    ms::fill_bytes(right_, 0);
    ms::fill_bytes(input_, 0);
    for (auto const way : {engines, kernels, nccl}) {
      ms::comm::CommunicatorOptions const options{.name = fmt::format("way {}", std::size_t{way}),
                                                  .copy_engines = way == engines,
                                                  .peer_access = way != nccl};
      auto& ranks = ranks_[way].emplace(device_, world, options);
      outputs_[way].emplace(way == engines
                                ? ms::comm::symmetric_tensor<float>(ranks, input_.shape())
                                : Floats(device_, input_.shape()));
      exchanges_[way].emplace(device_, [this, way] {
        for (int i = 0; i < kExchanges; ++i) {
          ms::comm::all_to_all(*ranks_[way], input_, *outputs_[way]);
        }
      });
    }
    device_.default_group().synchronize();
  }
  void begin_exchanges(Beside way) {
    if (exchanges_[way]) {
      exchanges_[way]->replay();
    }
  }
  void run() {
    ms::StreamScope const scope(pool_[0]);
    for (int i = 0; i < kProducts; ++i) {
      static_cast<void>(ms::ops::matmul(left_, right_));
    }
  }
  void wait_for_products() { pool_[0].synchronize(); }
  void wait_for_exchanges() {
    for (auto const& ranks : ranks_) {
      if (ranks) {
        ranks->synchronize();
      }
    }
  }

 private:
  static constexpr std::int64_t kElements = 32 << 20;  ///< 64 MiB to another one of two ranks
  static constexpr int kExchanges = 80;                ///< longer than the products

  ms::Device<R> device_;
  ms::StreamPool<R> pool_;
  ms::Tensor<ms::bfloat16, R> left_;
  ms::Tensor<ms::bfloat16, R> right_;
  Floats input_;
  std::array<std::optional<ms::comm::Communicator<R>>, besides> ranks_;
  std::array<std::optional<Floats>, besides> outputs_;
  std::array<std::optional<ms::CapturedStep<R>>, besides> exchanges_;
};

void measure_products(benchmark::State& state) {
  using Times = std::array<RoundTimes, besides>;
  auto const times = of_first_rank<Times>([&](std::barrier<>& all, ms::comm::World const& world) {
    Products products(world);
    Times own;
    for (int batch = 0; batch < kBatches + kWarmUps; ++batch) {
      for (auto const way : {nothing, engines, kernels, nccl}) {
        products.begin_exchanges(way);
        time_batch(
            all, 1, own[way], [&] { products.run(); }, [&] { products.wait_for_products(); });
        products.wait_for_exchanges();
      }
      if (batch + 1 == kWarmUps) {
        own = {};
      }
    }
    return own;
  });
  double const alone_ns = median(times[nothing].device) / Products::kProducts;
  state.counters["alone_us"] = alone_ns * 1e-3;
  report_ratio(state, "engines_ratio", times[engines].device, times[nothing].device);
  report_ratio(state, "kernels_ratio", times[kernels].device, times[nothing].device);
  report_ratio(state, "nccl_ratio", times[nccl].device, times[nothing].device);
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(alone_ns * 1e-9);
  }
}

}  // namespace

void add_cuda_benchmarks() {
  if (R::device_count() < 2) {
    std::cerr << "exchange: expected two GPUs or more\n";
    return;
  }
  for (std::int64_t const mib : {1, 4, 16, 64}) {
    add(fmt::format("exchange/cuda/counted/MiB:{}", mib), 1, [=](benchmark::State& state) {
      measure_counted(state, mib << 20);
    });
  }
  add("exchange/cuda/products", 1, [](benchmark::State& state) { measure_products(state); });
}

#else

void add_cuda_benchmarks() {
  std::cerr << "exchange: this build has not found NCCL\n";
}

#endif

/// There is nothing to compare exchanges on the host runtime with.
void add_host_benchmarks() {}

}  // namespace benchmarks
