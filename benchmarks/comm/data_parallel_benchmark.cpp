// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks.hpp"
#include "ops/drawn.hpp"
#include "ple_grouped.hpp"
#include "step/random_ple.hpp"
#include "suite.hpp"
#include "training/step_training.hpp"

#include <msstream/comm/measure_links.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/ranks_model.hpp>
#include <msstream/step/record_step.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Benchmarks of captured data parallel training steps: all ranks together, and rank 0 alone on as
/// many rows as each of them has. Every rank has all parameters, tables included, so nothing but
/// gradients and the loss is exchanged. The models are train_ple in its grouped form, and a DLRM
/// whose 26 tables are narrow, as in examples/models/dlrm.cpp, with the dense layers of the sharded
/// DLRM: wide tables are for ShardedTables, which sharded_dlrm_benchmark measures. Batches are on
/// the device throughout.
///
/// Reports medians over batches of steps, both ways by turns: the time of a step alone
/// (`alone_ms`) and together (`together_ms`), and what the exchange costs, with its least and most:
/// the difference (`extra_us…`) and the ratio (`ratio…`). Compares the time together with what
/// predict() says of a recorded eager step and measured collectives (`predicted_ms`), also as a
/// ratio of both (`predicted_ratio`).
namespace benchmarks {

namespace {

namespace ms = msstream;

constexpr int kBatches = 9;  ///< whose median is reported
constexpr int kWarmUps = 2;

/// A training step of one rank.
class AnyTraining {
 public:
  AnyTraining() = default;
  AnyTraining(AnyTraining const&) = delete;
  AnyTraining& operator=(AnyTraining const&) = delete;
  virtual ~AnyTraining() = default;
  virtual void step() = 0;
  virtual void wait() = 0;
  /// Returns the predicted time of a captured step with all ranks of the world, which call it
  /// alike. Of a training that is not captured, and has done a step.
  [[nodiscard]] virtual double predicted_ns(ms::comm::World const& world) = 0;
};

/// Trains the model on the batch that `build(device)` returns, as a pair.
template <ms::Runtime R, class Build>
class Training final : public AnyTraining {
 public:
  Training(ms::comm::World const& world, int groups, bool is_captured, Build const& build)
      : training_(
            {.groups = groups, .captured = is_captured, .precision = ms::MatmulPrecision::tf32},
            {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 0.001F},
            build,
            std::nullopt,
            {.world = world}) {}

  void step() override { training_.step(); }
  void wait() override { training_.synchronize(); }
  double predicted_ns(ms::comm::World const& world) override {
    constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
    auto const& device = training_.device();
    auto const trace = ms::record_step(device, [&] { training_.step(); });
    ms::comm::Communicator<R> const ranks(device, world, {.name = "links"});
    auto const links = ms::comm::measure_links(ranks, kMostBytes);
    return ms::predict(trace,
                       links,
                       {.ranks = world.size(), .step = {.launch = ms::StepModel::Launch::graph}})
        .step_ns;
  }

 private:
  ms::training::StepTrainingOf<R, Build> training_;
};

template <class Model, class Batch>
[[nodiscard]] auto with_inputs(Model model, Batch batch) {
  ms::training::BatchesOfParts<Batch> inputs;
  inputs.batches.push_back(std::move(batch));
  return std::pair(std::move(model), std::move(inputs));
}

/// Makes the training of a rank in a world. `number` is that of the rows.
using Make = std::unique_ptr<AnyTraining> (*)(ms::comm::World const& world,
                                              std::int64_t rows,
                                              std::int64_t divisor,
                                              int number,
                                              bool is_captured);

template <ms::Runtime R>
[[nodiscard]] std::unique_ptr<AnyTraining> make_ple(ms::comm::World const& world,
                                                    std::int64_t rows,
                                                    std::int64_t divisor,
                                                    int number,
                                                    bool is_captured) {
  constexpr int kGroups = 4;
  auto const build = [=](ms::Device<R> const& device) {
    return with_inputs(train_ple::PleGrouped<R>(device, random_ple_shape(divisor)),
                       random_ple_batch(device, rows, static_cast<std::uint64_t>(number)));
  };
  return std::make_unique<Training<R, decltype(build)>>(world, kGroups, is_captured, build);
}

constexpr std::int64_t kTables = 26;
constexpr std::int64_t kTableRows = 100'000;
constexpr std::int64_t kWidth = 16;
constexpr std::int64_t kNumbers = 13;

template <ms::Runtime R>
struct DlrmBatch {
  ms::Tensor<float, R> numbers;     ///< [rows, numbers]
  ms::Tensor<std::int64_t, R> ids;  ///< [tables * rows], table by table
  ms::Tensor<float, R> labels;      ///< [rows, 1]
};

template <ms::Runtime R>
class Dlrm {
 public:
  Dlrm(ms::Device<R> const& device, std::int64_t divisor)
      : parameters_(device, {.seed = 1}),
        tables_(device,
                parameters_.tables("table",
                                   std::vector(static_cast<std::size_t>(kTables),
                                               ms::Shape{kTableRows / divisor, kWidth}))),
        bottom_(parameters_,
                "bottom",
                kNumbers,
                {512 / divisor, 256 / divisor, kWidth},
                {.last = ms::ops::Activation::relu}),
        top_(parameters_,
             "top",
             kWidth + (kTables + 1) * kTables / 2,
             {1024 / divisor, 1024 / divisor, 512 / divisor, 256 / divisor, 1}) {}

  [[nodiscard]] ms::Tensor<float, R> loss(ms::GradientTape<R>& tape,
                                          ms::StreamPool<R>& pool,
                                          DlrmBatch<R> const& batch) const {
    tape.without_gradient(batch.numbers);
    auto const rows = [&] {
      ms::StreamScope<R> const side(pool[pool.groups() - 1], {.include_grad = true});
      return ms::ops::embedding_lookup(
          tape, tables_, {.ids = batch.ids, .batch = batch.numbers.shape()[0]});
    }();
    auto const dense = bottom_(tape, batch.numbers);
    auto const logits = top_(tape, ms::ops::dot_interaction(tape, dense, rows));
    return ms::ops::mean_bce_with_logits(tape, logits, batch.labels);
  }
  [[nodiscard]] ms::Parameters<R> const& parameters() const noexcept { return parameters_; }

 private:
  ms::Parameters<R> parameters_;
  ms::ops::EmbeddingTables<R> tables_;
  ms::DenseStack<R> bottom_;
  ms::DenseStack<R> top_;
};

/// Returns the batch of this number. Ids have a power law.
template <ms::Runtime R>
[[nodiscard]] DlrmBatch<R> dlrm_batch(ms::Device<R> const& device,
                                      std::int64_t rows,
                                      std::int64_t divisor,
                                      int number) {
  auto const count = kTables * rows;
  auto const all = drawn((number + 1) * count, kTableRows / divisor, Draw::power_law);
  std::vector<float> numbers(static_cast<std::size_t>(rows * kNumbers));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i * 7 % 11) / 11;
  }
  std::vector<float> labels(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = i % 3 == 0 ? 1.0F : 0.0F;
  }
  return {ms::to_device(device, numbers, {rows, kNumbers}),
          ms::to_device(device, std::vector(all.end() - count, all.end()), ms::Shape{count}),
          ms::to_device(device, labels, {rows, 1})};
}

template <ms::Runtime R>
[[nodiscard]] std::unique_ptr<AnyTraining> make_dlrm(ms::comm::World const& world,
                                                     std::int64_t rows,
                                                     std::int64_t divisor,
                                                     int number,
                                                     bool is_captured) {
  constexpr int kGroups = 2;
  auto const build = [=](ms::Device<R> const& device) {
    return with_inputs(Dlrm<R>(device, divisor), dlrm_batch(device, rows, divisor, number));
  };
  return std::make_unique<Training<R, decltype(build)>>(world, kGroups, is_captured, build);
}

struct Case {
  Make make;
  std::int64_t rows;     ///< of a rank
  std::int64_t divisor;  ///< of the sizes of the model
  int steps;             ///< in a batch
};

struct Results {
  RoundTimes alone;
  RoundTimes together;
  double predicted_ns = 0;
};

/// Times both ways by turns, on one rank.
[[nodiscard]] Results times_of(std::barrier<>& all,
                               ms::comm::World const& world,
                               Case const& measured) {
  auto const make = [&](ms::comm::World const& of, bool is_captured) {
    return measured.make(of, measured.rows, measured.divisor, world.rank(), is_captured);
  };
  double const predicted_ns = [&] {
    auto const eager = make(world, false);
    eager->step();
    eager->wait();
    return eager->predicted_ns(world);
  }();
  auto const together = make(world, true);
  auto const alone = world.rank() == 0 ? make(ms::comm::World(), true) : nullptr;
  // One step is eager, and the second one is captured.
  for (int step = 0; step < 2; ++step) {
    together->step();
    together->wait();
    if (alone) {
      alone->step();
      alone->wait();
    }
  }
  Results times;
  for (int batch = 0; batch < kBatches + kWarmUps; ++batch) {
    time_batch(
        all,
        measured.steps,
        times.alone,
        [&] {
          if (alone) {
            alone->step();
          }
        },
        [&] {
          if (alone) {
            alone->wait();
          }
        });
    time_batch(
        all, measured.steps, times.together, [&] { together->step(); }, [&] { together->wait(); });
    if (batch + 1 == kWarmUps) {
      times = {};
    }
  }
  times.predicted_ns = predicted_ns;
  return times;
}

/// Reports a quantity of each batch: the median, the least and the most.
void report(benchmark::State& state, std::string const& name, std::vector<double> const& values) {
  auto const [least, most] = std::ranges::minmax(values);
  state.counters[name] = median(values);
  state.counters[name + "_least"] = least;
  state.counters[name + "_most"] = most;
}

void measure(benchmark::State& state, int ranks, Case const& measured) {
  std::barrier<> all(ranks);
  Results of_first;
  ms::comm::run_as_threads(ranks, [&](ms::comm::World const& world) {
    Leaving const leaving{all};
    auto const times = times_of(all, world, measured);
    if (world.rank() == 0) {
      of_first = times;
    }
  });
  auto const& alone = of_first.alone.device;
  auto const& together = of_first.together.device;
  std::vector<double> extra_us;
  std::vector<double> ratios;
  for (std::size_t batch = 0; batch < alone.size(); ++batch) {
    extra_us.push_back((together[batch] - alone[batch]) * 1e-3);
    ratios.push_back(together[batch] / alone[batch]);
  }
  state.counters["alone_ms"] = median(alone) * 1e-6;
  state.counters["together_ms"] = median(together) * 1e-6;
  state.counters["predicted_ms"] = of_first.predicted_ns * 1e-6;
  state.counters["predicted_ratio"] = of_first.predicted_ns / median(together);
  report(state, "extra_us", extra_us);
  report(state, "ratio", ratios);
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(median(together) * 1e-9);
  }
}

void add_case(std::string_view model, std::string_view runtime, int ranks, Case const& measured) {
  add(fmt::format("data_parallel/{}/{}/ranks:{}/rows:{}", runtime, model, ranks, measured.rows),
      1,
      [=](benchmark::State& state) { measure(state, ranks, measured); });
}

}  // namespace

void add_cuda_benchmarks() {
#if MSSTREAM_BENCHMARK_NCCL
  int const gpus = ms::Cuda::device_count();
  if (gpus < 2) {
    std::cerr << "data_parallel: expected two GPUs or more\n";
    return;
  }
  constexpr std::int64_t kDlrmSamples = 65'536;  // of all ranks
  for (int ranks = 2; ranks <= gpus; ranks *= 2) {
    add_case("ple", "cuda", ranks, {make_ple<ms::Cuda>, 512, 1, 200});
    add_case("ple", "cuda", ranks, {make_ple<ms::Cuda>, 4096, 1, 100});
    add_case("dlrm", "cuda", ranks, {make_dlrm<ms::Cuda>, kDlrmSamples / ranks, 1, 40});
  }
#else
  std::cerr << "data_parallel: this build has not found NCCL\n";
#endif
}

/// Small models on two threads: they show that the program works, not what an exchange costs.
void add_host_benchmarks() {
  add_case("ple", "host", 2, {make_ple<ms::Host>, 16, 100, 2});
  add_case("dlrm", "host", 2, {make_dlrm<ms::Host>, 64, 16, 2});
}

}  // namespace benchmarks
