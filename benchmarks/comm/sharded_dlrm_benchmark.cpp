// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks.hpp"
#include "ops/drawn.hpp"
#include "suite.hpp"

#include <msstream/comm/collectives.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

/// Benchmarks of the training step of a DLRM whose tables are on different ranks and whose dense
/// layers are data parallel, with sgd throughout. Reports medians over batches, all ways by turns,
/// eager and captured: the time of a step of each way (`…_ms`), the speedup over `in_turn`
/// (`…_speedup`), with its least and most, and the most device memory reserved by its eager and its
/// captured steps together (`…_MiB`).
namespace benchmarks {

namespace {

constexpr int kBatches = 7;  ///< whose median is reported
constexpr int kWarmUps = 2;
constexpr int kDistinctSteps = 4;

struct Size {
  std::int64_t tables;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t hotness;
  std::int64_t samples;  ///< of all ranks
  std::int64_t numbers;
  std::vector<std::int64_t> bottom;
  std::vector<std::int64_t> top;
};

/// The ways to train that are compared. `in_turn`: a step exchanges its ids, looks up, and trains.
/// `ids_ahead`: the ids of the next step are exchanged beside this step. `rows_ahead`: and its
/// pooled rows are sent, as far as this step moves none of their rows. `stale_ahead`: all pooled
/// rows of the next step are sent, as they are before the update of this one. `distinct_ahead`:
/// distinct rows are sent, those of the next step that this one does not move ahead of it.
enum class Way : std::uint8_t { in_turn, ids_ahead, rows_ahead, stale_ahead, distinct_ahead };
constexpr std::array kWays{
    Way::in_turn, Way::ids_ahead, Way::rows_ahead, Way::stale_ahead, Way::distinct_ahead};
/// The steps of each way: first eager, then captured ones.
constexpr std::size_t kModes = 2 * kWays.size();

[[nodiscard]] std::string name_of(Way way) {
  constexpr std::array<std::string_view, kWays.size()> names{
      "in_turn", "ids_ahead", "rows_ahead", "stale_ahead", "distinct_ahead"};
  return std::string(names[static_cast<std::size_t>(way)]);
}

[[nodiscard]] std::vector<ms::TableSpec> specs_of(Size const& size) {
  std::vector<ms::TableSpec> specs;
  for (std::int64_t i = 0; i < size.tables; ++i) {
    specs.push_back({.name = fmt::format("table {}", i),
                     .rows = size.rows,
                     .width = size.width,
                     .hotness = size.hotness});
  }
  return specs;
}

/// One rank's model in training, on a device of its own.
template <ms::Runtime R>
class Training {
 public:
  Training(ms::comm::World const& world, Size const& size, Way way)
      : way_(way),
        rows_(size.samples / world.size()),
        device_(ms::comm::device_of<R>(world, {.matmul_precision = ms::MatmulPrecision::tf32})),
        for_tables_(device_, world, {.name = fmt::format("tables {}", name_of(way))}),
        for_gradients_(device_, world, {.name = fmt::format("gradients {}", name_of(way))}),
        tables_(
            specs_of(size),
            for_tables_,
            {.most_samples = rows_,
             .sent = way == Way::distinct_ahead ? ms::SentRows::distinct : ms::SentRows::pooled}),
        parameters_(device_),
        bottom_(
            parameters_, "bottom", size.numbers, size.bottom, {.last = ms::ops::Activation::relu}),
        top_(parameters_, "top", size.width + (size.tables + 1) * size.tables / 2, size.top),
        parallel_(parameters_, for_gradients_),
        optimizer_(device_, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.01F}),
        tape_(device_) {
    optimizer_.add(parameters_);
    tables_.add_to(optimizer_);
    auto const count = rows_ * size.tables * size.hotness;
    auto const drawn_ids = drawn(kDistinctSteps * count * world.size(), size.rows, Draw::power_law);
    for (int step = 0; step < kDistinctSteps; ++step) {
      auto const begin = drawn_ids.begin() + (step * world.size() + world.rank()) * count;
      ids_.push_back(ms::to_device(
          device_, std::vector<std::int64_t>(begin, begin + count), ms::Shape{count}));
    }
    current_ids_.emplace(device_, ms::Shape{count});
    std::vector<float> numbers(static_cast<std::size_t>(rows_ * size.numbers));
    std::vector<float> labels(static_cast<std::size_t>(rows_));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>(i * 7 % 11) / 11;
    }
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = i % 3 == 0 ? 1.0F : 0.0F;
    }
    numbers_.emplace(ms::to_device(device_, numbers, {rows_, size.numbers}));
    labels_.emplace(ms::to_device(device_, labels, {rows_, 1}));
  }

  void step(bool is_captured) {
    ms::copy(*current_ids_, ids_[static_cast<std::size_t>(steps_++ % kDistinctSteps)]);
    auto& exchanged = is_captured ? for_captured_ : for_eager_;
    if (way_ != Way::in_turn && !exchanged) {
      auto const first = tables_.exchange(bags());
      exchanged = with_rows(first, first);
    }
    if (!is_captured) {
      return train(is_captured);
    }
    if (!captured_) {
      captured_.emplace(device_, [this] { train(true); });
      // Rows that eager steps have prefetched do not allow the backward of other bags meanwhile.
      for_eager_.reset();
    }
    captured_->replay();
  }
  void wait() {
    device_.default_group().synchronize();
    for_tables_.synchronize();
    for_gradients_.synchronize();
  }
  [[nodiscard]] double reserved_mib() const {
    return static_cast<double>(device_.memory_statistics().peak_reserved_bytes) / (1 << 20);
  }

 private:
  [[nodiscard]] ms::ops::TableBags<R> bags() const {
    return {.ids = *current_ids_, .batch = rows_};
  }
  [[nodiscard]] ms::ShardedIds<R> with_rows(ms::ShardedIds<R> const& next,
                                            ms::ShardedIds<R> const& now) const {
    switch (way_) {
      case Way::rows_ahead:
      case Way::distinct_ahead:
        return tables_.prefetch_rows(next, now);
      case Way::stale_ahead:
        return tables_.prefetch_stale_rows(next);
      default:
        return next;
    }
  }
  /// With ids ahead, `current_ids_` are those of the next step.
  void train(bool is_captured) {
    tape_.without_gradient(*numbers_);
    auto& exchanged = is_captured ? for_captured_ : for_eager_;
    // Played back in reverse, the gradients of pooled rows leave before those of this layer.
    auto const dense = bottom_(tape_, *numbers_);
    auto const pooled =
        exchanged ? tables_.lookup(tape_, *exchanged) : tables_.lookup(tape_, bags());
    std::optional<ms::ShardedIds<R>> next;
    if (exchanged) {
      next = with_rows(tables_.exchange(bags()), *exchanged);
    }
    auto const logits = top_(tape_, ms::ops::dot_interaction(tape_, dense, pooled));
    auto const loss = ms::ops::mean_bce_with_logits(tape_, logits, *labels_);
    parallel_.backward(tape_, loss);
    optimizer_.step(tape_);
    tape_.clear();
    if (next && is_captured) {
      exchanged->assign(*next);
    } else if (next) {
      exchanged = next;
    }
  }

  Way way_;
  std::int64_t rows_;
  ms::Device<R> device_;
  ms::comm::Communicator<R> for_tables_;
  ms::comm::Communicator<R> for_gradients_;
  ms::ShardedTables<R> tables_;
  ms::Parameters<R> parameters_;
  ms::DenseStack<R> bottom_;
  ms::DenseStack<R> top_;
  ms::DataParallel<R> parallel_;
  ms::Optimizer<R> optimizer_;
  ms::GradientTape<R> tape_;
  std::vector<ms::Tensor<std::int64_t, R>> ids_;
  std::optional<ms::Tensor<std::int64_t, R>> current_ids_;
  std::optional<ms::Tensor<float, R>> numbers_;
  std::optional<ms::Tensor<float, R>> labels_;
  std::optional<ms::ShardedIds<R>> for_eager_;  ///< the ids of the next eager step
  std::optional<ms::ShardedIds<R>> for_captured_;
  std::optional<ms::CapturedStep<R>> captured_;
  int steps_ = 0;
};

struct Results {
  std::array<RoundTimes, kModes> times;
  std::array<double, kWays.size()> mib;
};

template <ms::Runtime R>
void measure(benchmark::State& state, int ranks, Size const& size, int rounds) {
  std::barrier<> all(ranks);
  Results of_first;
  ms::comm::run_as_threads(ranks, [&](ms::comm::World const& world) {
    Leaving const leaving{all};
    std::array<std::unique_ptr<Training<R>>, kWays.size()> trainings;
    Results own;
    for (std::size_t i = 0; i < kWays.size(); ++i) {
      trainings[i] = std::make_unique<Training<R>>(world, size, kWays[i]);
    }
    for (int batch = 0; batch < kBatches + kWarmUps; ++batch) {
      for (std::size_t i = 0; i < kModes; ++i) {
        auto& training = *trainings[i % kWays.size()];
        time_batch(
            all,
            rounds,
            own.times[i],
            [&] { training.step(i >= kWays.size()); },
            [&] { training.wait(); });
      }
      if (batch + 1 == kWarmUps) {
        own.times = {};
      }
    }
    for (std::size_t i = 0; i < kWays.size(); ++i) {
      own.mib[i] = trainings[i]->reserved_mib();
    }
    if (world.rank() == 0) {
      of_first = own;
    }
  });
  auto const& in_turn = of_first.times[0].device;
  for (std::size_t i = 0; i < kModes; ++i) {
    auto const name = (i < kWays.size() ? "" : "captured_") + name_of(kWays[i % kWays.size()]);
    auto const& times = of_first.times[i].device;
    std::vector<double> speedups;
    for (std::size_t batch = 0; batch < times.size(); ++batch) {
      speedups.push_back(in_turn[batch] / times[batch]);
    }
    auto const [least, most] = std::ranges::minmax(speedups);
    state.counters[fmt::format("{}_ms", name)] = median(times) * 1e-6;
    state.counters[fmt::format("{}_speedup", name)] = median(speedups);
    state.counters[fmt::format("{}_speedup_least", name)] = least;
    state.counters[fmt::format("{}_speedup_most", name)] = most;
  }
  for (std::size_t i = 0; i < kWays.size(); ++i) {
    state.counters[fmt::format("{}_MiB", name_of(kWays[i]))] = of_first.mib[i];
  }
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(median(in_turn) * 1e-9);
  }
}

template <ms::Runtime R>
void add_size(std::string_view runtime, int ranks, Size const& size, int rounds) {
  add(fmt::format("sharded_dlrm/{}/ranks:{}/samples:{}", runtime, ranks, size.samples),
      1,
      [=](benchmark::State& state) { measure<R>(state, ranks, size, rounds); });
}

}  // namespace

void add_cuda_benchmarks() {
#if MSSTREAM_BENCHMARK_NCCL
  if (int const gpus = ms::Cuda::device_count(); gpus >= 2) {
    return add_size<ms::Cuda>("cuda",
                              gpus,
                              {.tables = 26,
                               .rows = 1'000'000,
                               .width = 128,
                               .hotness = 10,
                               .samples = 16'384,
                               .numbers = 13,
                               .bottom = {512, 256, 128},
                               .top = {1024, 1024, 512, 256, 1}},
                              20);
  }
  std::cerr << "sharded_dlrm: expected two GPUs or more\n";
#else
  std::cerr << "sharded_dlrm: this build has not found NCCL\n";
#endif
}

/// A small model on two threads: it shows that the program works, not what an overlap brings.
void add_host_benchmarks() {
  add_size<ms::Host>("host",
                     2,
                     {.tables = 4,
                      .rows = 1000,
                      .width = 16,
                      .hotness = 3,
                      .samples = 64,
                      .numbers = 13,
                      .bottom = {32, 16},
                      .top = {32, 1}},
                     4);
}

}  // namespace benchmarks
