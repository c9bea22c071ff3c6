// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks.hpp"
#include "comm/rectified.hpp"
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
/// with ReLU and an all-gather of the result. Each half has a communicator, so that the gathers of
/// one run beside the products of the other. Reports medians over batches, all ways by turns, eager
/// and captured: the products alone (`compute_ms`), the gathers alone (`comm_ms`), and for each
/// other way and setup the time (`…_ms`) over the larger of both (`…_ratio`), captured steps over
/// those of captured ones, with its least and most.
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
/// The others issue the layers of both halves by turns, each half to a communicator of its own:
/// `beside` with a group for each half, whose products share the device as it likes, and
/// `alternating` with one group, in which the products of a half follow those of the other.
enum class Way : std::uint8_t { compute, comm, in_turn, beside, alternating };

/// How the gathers get room beside the products. `plain` gives them none. With `room`, the products
/// leave multiprocessors free, to which the gathers keep. With `engines`, the gathers run on copy
/// engines, into symmetric tensors, and the last ReLU of a layer writes to the rank's part of them.
enum class Setup : std::uint8_t { plain, room, engines };

/// A way in a setup.
struct Variant {
  Setup setup;
  Way way;
  bool is_captured;

  [[nodiscard]] bool is_ideal() const { return way == Way::compute || way == Way::comm; }
};

constexpr int kRoomSms = 16;

[[nodiscard]] std::vector<Variant> all_variants() {
  std::vector<Variant> variants;
  for (bool const is_captured : {false, true}) {
    for (auto const way : {Way::compute, Way::comm, Way::in_turn, Way::beside, Way::alternating}) {
      variants.push_back({Setup::plain, way, is_captured});
    }
    for (auto const way : {Way::compute, Way::beside, Way::alternating}) {
      variants.push_back({Setup::room, way, is_captured});
    }
    for (auto const way : {Way::comm, Way::beside, Way::alternating}) {
      variants.push_back({Setup::engines, way, is_captured});
    }
  }
  return variants;
}

[[nodiscard]] std::string name_of(Variant variant) {
  constexpr std::array<std::string_view, 5> ways{
      "compute", "comm", "in_turn", "beside", "alternating"};
  constexpr std::array<std::string_view, 3> setups{"", "room_", "engines_"};
  return fmt::format("{}{}{}",
                     variant.is_captured ? "captured_" : "",
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
    }
  }

  void run(Way way, bool is_captured) {
    if (!is_captured) {
      return run(way);
    }
    auto& captured = captured_[static_cast<std::size_t>(way)];
    if (!captured) {
      captured.emplace(device_, [this, way] { run(way); });
    }
    captured->replay();
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
  /// Returns the result of a layer's products. That of the last ReLU is what the half gathers.
  [[nodiscard]] Floats products(Floats input, int layer, int half) const {
    auto const& weight = weights_[static_cast<std::size_t>(layer)];
    for (int i = 0; i + 1 < kProducts; ++i) {
      input = ms::ops::relu(ms::ops::matmul(input, weight));
    }
    input = ms::ops::matmul(input, weight);
    if (setup_ != Setup::engines) {
      return ms::ops::relu(input);
    }
    auto const sent = own_rows(half);
    rectify(input, sent);
    return sent;
  }
  void gather(int half, int communicator, Floats const& rows) const {
    ms::comm::all_gather(communicators_[communicator], rows, *gathered_[half]);
  }
  void run(Way way) {
    bool const is_by_turns = way == Way::beside || way == Way::alternating;
    if (is_by_turns) {
      std::array values{*inputs_[0], *inputs_[1]};
      for (int layer = 0; layer < kLayers; ++layer) {
        for (int half = 0; half < 2; ++half) {
          ms::StreamScope const scope(pool_[way == Way::beside ? half : 0]);
          gather(half, half, products(values[half], layer, half));
          values[half] = own_rows(half);
        }
      }
      return;
    }
    ms::StreamScope const scope(pool_[0]);
    for (int half = 0; half < 2; ++half) {
      auto value = *inputs_[half];
      for (int layer = 0; layer < kLayers; ++layer) {
        if (way == Way::comm) {
          gather(half, half, setup_ == Setup::engines ? own_rows(half) : value);
          continue;
        }
        value = products(value, layer, half);
        if (way == Way::in_turn) {
          gather(half, 0, value);
          value = own_rows(half);
        }
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
  std::array<std::optional<ms::CapturedStep<R>>, 5> captured_;  ///< of each way
};

using Times = std::vector<RoundTimes>;  ///< of each variant

/// Times all variants by turns on one rank. `all` are the ranks.
template <ms::Runtime R>
[[nodiscard]] Times times_of(std::barrier<>& all,
                             ms::comm::World const& world,
                             Size size,
                             int rounds) {
  std::array halves{std::make_unique<Halves<R>>(world, size, Setup::plain),
                    std::make_unique<Halves<R>>(world, size, Setup::room),
                    std::make_unique<Halves<R>>(world, size, Setup::engines)};
  auto const variants = all_variants();
  Times times(variants.size());
  for (int batch = 0; batch < kBatches + kWarmUps; ++batch) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      auto const [setup, way, is_captured] = variants[i];
      auto& own = *halves[static_cast<std::size_t>(setup)];
      time_batch(
          all, rounds, times[i], [&] { own.run(way, is_captured); }, [&] { own.wait(); });
    }
    if (batch + 1 == kWarmUps) {
      times.assign(variants.size(), {});
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
  auto const variants = all_variants();
  std::array<double, 2> ideal_ms{};  // of eager and of captured steps
  for (std::size_t i = 0; i < variants.size(); ++i) {
    auto const variant = variants[i];
    if (variant.setup == Setup::plain && variant.is_ideal()) {
      auto& ideal = ideal_ms.at(variant.is_captured ? 1 : 0);
      ideal = std::max(ideal, median(of_first[i].device) * 1e-6);
    }
  }
  for (std::size_t i = 0; i < variants.size(); ++i) {
    auto const variant = variants[i];
    auto const name = name_of(variant);
    auto const& device = of_first[i].device;
    state.counters[name + "_ms"] = median(device) * 1e-6;
    if (!variant.is_ideal()) {
      double const ideal = ideal_ms.at(variant.is_captured ? 1 : 0);
      auto const [least, most] = std::ranges::minmax(device);
      state.counters[name + "_ratio"] = median(device) * 1e-6 / ideal;
      state.counters[name + "_least"] = least * 1e-6 / ideal;
      state.counters[name + "_most"] = most * 1e-6 / ideal;
    }
  }
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(ideal_ms[0] * 1e-3);
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
    return add_sizes<ms::Cuda>("cuda", gpus, {{8192, 2048}, {2048, 1024}}, 8);
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
