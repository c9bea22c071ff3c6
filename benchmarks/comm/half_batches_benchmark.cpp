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
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

/// Benchmarks of two half batches of twelve layers on each rank. A layer is three matrix products
/// with ReLU and an all-gather of the result. Each half has a stream group and a communicator, so
/// that the gathers of one run beside the products of the other. Reports medians over batches, all
/// ways by turns: the products alone (`compute_ms`), the gathers alone (`comm_ms`), and for each
/// way and setup the time (`…_ms`) over the larger of both (`…_ratio`).
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

/// How the gathers get room beside the products. `plain` gives them none. With `room`, the products
/// leave multiprocessors free, to which NCCL keeps. With `engines`, the gathers run on copy
/// engines, between symmetric tensors.
enum class Setup : std::uint8_t { plain, room, engines };

/// A way in a setup.
struct Variant {
  Setup setup;
  Way way;
};
constexpr std::array kVariants{Variant{Setup::plain, Way::compute},
                               Variant{Setup::plain, Way::comm},
                               Variant{Setup::plain, Way::in_turn},
                               Variant{Setup::plain, Way::beside},
                               Variant{Setup::plain, Way::captured},
                               Variant{Setup::room, Way::compute},
                               Variant{Setup::room, Way::comm},
                               Variant{Setup::room, Way::beside},
                               Variant{Setup::room, Way::captured},
                               Variant{Setup::engines, Way::comm},
                               Variant{Setup::engines, Way::beside},
                               Variant{Setup::engines, Way::captured}};

constexpr int kRoomSms = 16;

[[nodiscard]] std::string name_of(Variant variant) {
  constexpr std::array<std::string_view, 5> ways{
      "compute", "comm", "in_turn", "beside", "captured"};
  constexpr std::array<std::string_view, 3> setups{"", "room_", "engines_"};
  return fmt::format("{}{}",
                     setups[static_cast<std::size_t>(variant.setup)],
                     ways[static_cast<std::size_t>(variant.way)]);
}

/// Two half batches on one rank.
template <ms::Runtime R>
class Halves {
 public:
  using Floats = ms::Tensor<float, R>;

  Halves(ms::comm::World const& world, Size size, Setup setup)
      : device_(ms::comm::device_of<R>(world, {.matmul_precision = ms::MatmulPrecision::tf32})),
        setup_(setup),
        pool_(device_, {.groups = 2, .spared_sms = setup == Setup::room ? kRoomSms : 0}),
        communicators_{made(world, "first half"), made(world, "second half")},
        rank_(world.rank()) {
    auto const half = size.rows / 2;
    for (int i = 0; i < kLayers; ++i) {
      weights_.push_back(drawn({size.width, size.width}, 1.4 / std::sqrt(size.width)));
    }
    for (auto& input : inputs_) {
      input.emplace(drawn({half, size.width}, 1.0));
    }
    for (std::size_t i = 0; i < gathered_.size(); ++i) {
      gathered_[i].emplace(shared(i, {half * world.size(), size.width}));
      if (setup == Setup::engines) {
        sent_[i].emplace(shared(i, {half, size.width}));
      }
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
  [[nodiscard]] ms::comm::Communicator<R> made(ms::comm::World const& world,
                                               std::string const& name) const {
    ms::comm::CommunicatorOptions options{.name = name};
    if (setup_ != Setup::plain) {
      options.priority = ms::StreamPriority::high;
      options.most_sms = setup_ == Setup::room ? kRoomSms : 0;
      options.copy_engines = setup_ == Setup::engines;
    }
    return ms::comm::Communicator<R>(device_, world, options);
  }
  /// Returns a tensor that a half's ranks gather.
  [[nodiscard]] Floats shared(std::size_t half, ms::Shape const& shape) const {
    return setup_ == Setup::engines ? ms::comm::symmetric_tensor<float>(communicators_[half], shape)
                                    : Floats(device_, shape);
  }
  /// Gathers a half's rows of all ranks.
  void gather(int half, Floats const& rows) const {
    if (auto const& sent = sent_[half]; sent) {
      ms::copy(*sent, rows);
    }
    ms::comm::all_gather(communicators_[half], sent_[half] ? *sent_[half] : rows, *gathered_[half]);
  }
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
      if (way == Way::comm) {
        ms::comm::all_gather(
            communicators_[half], sent_[half] ? *sent_[half] : value, *gathered_[half]);
      } else if (way == Way::in_turn) {
        ms::comm::all_gather(communicators_[0], value, *gathered_[half]);
        value = own_rows(half);
      }
    }
  }
  void beside() {
    std::array values{*inputs_[0], *inputs_[1]};
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int half = 0; half < 2; ++half) {
        ms::StreamScope const scope(pool_[half]);
        gather(half, products(values[half], layer));
        values[half] = own_rows(half);
      }
    }
  }

  ms::Device<R> device_;
  Setup setup_;
  std::mt19937 random_{1};
  std::normal_distribution<double> normal_;
  ms::StreamPool<R> pool_;
  std::array<ms::comm::Communicator<R>, 2> communicators_;
  int rank_;
  std::vector<Floats> weights_;
  std::array<std::optional<Floats>, 2> inputs_;
  std::array<std::optional<Floats>, 2> gathered_;
  std::array<std::optional<Floats>, 2> sent_;  ///< what is gathered, with Setup::engines
  std::optional<ms::CapturedStep<R>> captured_;
};

using Times = std::array<RoundTimes, kVariants.size()>;

/// Times all variants by turns on one rank. `all` are the ranks.
template <ms::Runtime R>
[[nodiscard]] Times times_of(std::barrier<>& all,
                             ms::comm::World const& world,
                             Size size,
                             int rounds) {
  std::array halves{std::make_unique<Halves<R>>(world, size, Setup::plain),
                    std::make_unique<Halves<R>>(world, size, Setup::room),
                    std::make_unique<Halves<R>>(world, size, Setup::engines)};
  Times times;
  for (int batch = 0; batch < kBatches + kWarmUps; ++batch) {
    for (std::size_t i = 0; i < kVariants.size(); ++i) {
      auto& own = *halves[static_cast<std::size_t>(kVariants[i].setup)];
      time_batch(
          all, rounds, times[i], [&] { own.run(kVariants[i].way); }, [&] { own.wait(); });
    }
    if (batch + 1 == kWarmUps) {
      times = {};
    }
  }
  return times;
}

template <ms::Runtime R>
void measure(benchmark::State& state, int ranks, Size size, int rounds) {
  std::barrier<> all(ranks);
  Times of_first;
  ms::comm::run_as_threads(ranks, [&](ms::comm::World const& world) {
    Leaving const leaving{all};
    auto const times = times_of<R>(all, world, size, rounds);
    if (world.rank() == 0) {
      of_first = times;
    }
  });
  auto const ms_of = [&](std::size_t variant) { return median(of_first[variant].device) * 1e-6; };
  double const ideal = std::max(ms_of(0), ms_of(1));
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(ms_of(4) * 1e-3);
  }
  for (std::size_t i = 0; i < kVariants.size(); ++i) {
    auto const name = name_of(kVariants[i]);
    state.counters[name + "_ms"] = ms_of(i);
    if (kVariants[i].way != Way::compute && kVariants[i].way != Way::comm) {
      auto const [least, most] = std::ranges::minmax(of_first[i].device);
      state.counters[name + "_ratio"] = ms_of(i) / ideal;
      state.counters[name + "_least"] = least * 1e-6 / ideal;
      state.counters[name + "_most"] = most * 1e-6 / ideal;
    }
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
