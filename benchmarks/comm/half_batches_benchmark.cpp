// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks.hpp"
#include "suite.hpp"

#include <msstream/comm/collectives.hpp>
#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

/// Benchmarks of two half batches of twelve layers on each rank. A layer is three matrix products
/// with ReLU and an all-gather of the result. Each half has a stream group and a communicator, so
/// that the gathers of one run beside the products of the other. Reports medians over batches, all
/// ways by turns: the products alone (`compute_ms`), the gathers alone (`comm_ms`), and for each
/// way the time (`…_ms`) over the larger of both (`…_ratio`).
namespace benchmarks {

namespace {

constexpr int kLayers = 12;
constexpr int kProducts = 3;
constexpr int kBatches = 9;  ///< whose median is reported
constexpr int kWarmUps = 2;

/// The size of the problem: a rank has `rows` rows of `width` elements, half of them in each half.
struct Size {
  std::int64_t rows;
  std::int64_t width;
};

/// The ways to run two half batches that are compared. `compute` and `comm` run the products and
/// the gathers alone. `in_turn` issues one half after the other to one group and one communicator.
/// `beside` issues the layers of both halves by turns, each half to a group and a communicator of
/// its own, and `captured` replays that.
enum class Way : std::uint8_t { compute, comm, in_turn, beside, captured };
constexpr std::array kWays{Way::compute, Way::comm, Way::in_turn, Way::beside, Way::captured};

[[nodiscard]] std::string_view name_of(Way way) {
  constexpr std::array<std::string_view, kWays.size()> names{
      "compute", "comm", "in_turn", "beside", "captured"};
  return names[static_cast<std::size_t>(way)];
}

/// Two half batches on one rank.
template <ms::Runtime R>
class Halves {
 public:
  using Floats = ms::Tensor<float, R>;

  Halves(ms::comm::World const& world, Size size)
      : device_(ms::comm::device_of<R>(world, {.matmul_precision = ms::MatmulPrecision::tf32})),
        pool_(device_, {.groups = 2}),
        communicators_{ms::comm::Communicator<R>(device_, world, {.name = "first half"}),
                       ms::comm::Communicator<R>(device_, world, {.name = "second half"})},
        rank_(world.rank()) {
    auto const half = size.rows / 2;
    for (int i = 0; i < kLayers; ++i) {
      weights_.push_back(drawn({size.width, size.width}, 1.4 / std::sqrt(size.width)));
    }
    for (auto& input : inputs_) {
      input.emplace(drawn({half, size.width}, 1.0));
    }
    for (auto& gathered : gathered_) {
      gathered.emplace(device_, ms::Shape{half * world.size(), size.width});
    }
  }

  void run(Way way) {
    switch (way) {
      case Way::compute:
      case Way::comm:
      case Way::in_turn:
        for (int half = 0; half < 2; ++half) {
          in_turn(way, half);
        }
        return;
      case Way::beside:
        return beside();
      case Way::captured:
        if (!captured_) {
          captured_.emplace(device_, [this] { beside(); });
        }
        return captured_->replay(), void();
    }
  }
  void wait() {
    pool_.synchronize();
    device_.default_group().synchronize();
    for (auto const& communicator : communicators_) {
      communicator.synchronize();
    }
  }

 private:
  /// Returns random elements of either sign and the given size.
  [[nodiscard]] Floats drawn(ms::Shape const& shape, double size) {
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    std::ranges::generate(values, [&] { return static_cast<float>(size * normal_(random_)); });
    return ms::to_device(device_, values, shape);
  }
  /// Returns the rows of this rank in what a half's ranks have gathered.
  [[nodiscard]] Floats own_rows(int half) const {
    auto const& all = *gathered_[half];
    auto const rows = inputs_[half]->shape()[0];
    return all.rows(rank_ * rows, (rank_ + 1) * rows);
  }
  [[nodiscard]] Floats products(Floats input, int layer) const {
    for (int i = 0; i < kProducts; ++i) {
      input = ms::ops::relu(ms::ops::matmul(input, weights_[static_cast<std::size_t>(layer)]));
    }
    return input;
  }
  void in_turn(Way way, int half) {
    ms::StreamScope const scope(pool_[0]);
    auto value = *inputs_[half];
    for (int layer = 0; layer < kLayers; ++layer) {
      value = way == Way::comm ? value : products(value, layer);
      if (way != Way::compute) {
        ms::comm::all_gather(communicators_[0], value, *gathered_[half]);
        value = way == Way::comm ? value : own_rows(half);
      }
    }
  }
  void beside() {
    std::array values{*inputs_[0], *inputs_[1]};
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int half = 0; half < 2; ++half) {
        ms::StreamScope const scope(pool_[half]);
        auto const output = products(values[half], layer);
        ms::comm::all_gather(communicators_[half], output, *gathered_[half]);
        values[half] = own_rows(half);
      }
    }
  }

  ms::Device<R> device_;
  std::mt19937 random_{1};
  std::normal_distribution<double> normal_;
  ms::StreamPool<R> pool_;
  std::array<ms::comm::Communicator<R>, 2> communicators_;
  int rank_;
  std::vector<Floats> weights_;
  std::array<std::optional<Floats>, 2> inputs_;
  std::array<std::optional<Floats>, 2> gathered_;
  std::optional<ms::CapturedStep<R>> captured_;
};

template <ms::Runtime R>
void measure(benchmark::State& state, int ranks, Size size, int rounds) {
  std::barrier<> all(ranks);
  std::array<RoundTimes, kWays.size()> of_first;
  ms::comm::run_as_threads(ranks, [&](ms::comm::World const& world) {
    Leaving const leaving{all};
    Halves<R> halves(world, size);
    std::array<RoundTimes, kWays.size()> times;
    for (int batch = 0; batch < kBatches + kWarmUps; ++batch) {
      for (auto const way : kWays) {
        time_batch(
            all,
            rounds,
            times[static_cast<std::size_t>(way)],
            [&] { halves.run(way); },
            [&] { halves.wait(); });
      }
      if (batch + 1 == kWarmUps) {
        times = {};
      }
    }
    if (world.rank() == 0) {
      of_first = times;
    }
  });
  auto const ms_of = [&](Way way) {
    return median(of_first[static_cast<std::size_t>(way)].device) * 1e-6;
  };
  double const ideal = std::max(ms_of(Way::compute), ms_of(Way::comm));
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(ms_of(Way::captured) * 1e-3);
  }
  for (auto const way : kWays) {
    state.counters[fmt::format("{}_ms", name_of(way))] = ms_of(way);
  }
  for (auto const way : {Way::in_turn, Way::beside, Way::captured}) {
    state.counters[fmt::format("{}_ratio", name_of(way))] = ms_of(way) / ideal;
    auto const& spread = of_first[static_cast<std::size_t>(way)].device;
    auto const [least, most] = std::ranges::minmax(spread);
    state.counters[fmt::format("{}_least", name_of(way))] = least * 1e-6 / ideal;
    state.counters[fmt::format("{}_most", name_of(way))] = most * 1e-6 / ideal;
  }
}

template <ms::Runtime R>
void add_sizes(std::string_view runtime, int ranks, std::vector<Size> const& sizes, int rounds) {
  for (auto const size : sizes) {
    add(fmt::format("half_batches/{}/rows:{}/width:{}", runtime, size.rows, size.width),
        1,
        [=](benchmark::State& state) { measure<R>(state, ranks, size, rounds); });
  }
}

}  // namespace

void add_cuda_benchmarks() {
#if MSSTREAM_BENCHMARK_NCCL
  if (int const gpus = ms::Cuda::device_count(); gpus >= 2) {
    return add_sizes<ms::Cuda>("cuda", gpus, {{8192, 2048}, {2048, 1024}}, 20);
  }
  std::cerr << "half_batches: expected two GPUs or more\n";
#else
  std::cerr << "half_batches: this build has not found NCCL\n";
#endif
}

/// Small sizes, on two threads: they show that the program works, not what overlap brings.
void add_host_benchmarks() {
  add_sizes<ms::Host>("host", 2, {{64, 64}}, 2);
}

}  // namespace benchmarks
