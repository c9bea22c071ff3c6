// SPDX-License-Identifier: Apache-2.0
#include "suite.hpp"

#include <msstream/checkpoint/writer.hpp>
#include <msstream/msstream.hpp>

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

/// Benchmarks of training steps while a checkpoint of large tables is being written, compared with
/// the same steps without one.
namespace benchmarks {
namespace {

namespace ms = msstream;

/// A step that looks up and changes large tables and computes on their rows: the lookups of a
/// batch, dense layers, a gradient, and an update of every table. The host waits after each step,
/// so that the time of each is known.
template <ms::Runtime R>
class Step {
 public:
  Step(ms::Device<R> const& device, std::int64_t table_rows)
      : device_(device),
        tape_(device),
        optimizer_(device, {.kind = ms::ops::OptimizerKind::adagrad, .learning_rate = 0.01F}) {
    for (int i = 0; i < kTables; ++i) {
      tables_.push_back(ms::zeros<float>(device, {table_rows, kWidth}));
      optimizer_.add_table(fmt::format("table{}", i), tables_.back());
      std::vector<std::int64_t> ids(kBatch);
      for (std::int64_t row = 0; row < kBatch; ++row) {
        ids[static_cast<std::size_t>(row)] = (row * 7919 + i) % table_rows;
      }
      ids_.emplace_back(ms::to_device(device, ids, {kBatch}));
    }
    std::int64_t inputs = kTables * kWidth;
    for (std::int64_t const outputs : {kHidden, kHidden, std::int64_t{1}}) {
      weights_.push_back(ms::zeros<float>(device, {inputs, outputs}));
      biases_.push_back(ms::zeros<float>(device, {outputs}));
      optimizer_.add(fmt::format("weight{}", weights_.size()), weights_.back());
      optimizer_.add(fmt::format("bias{}", weights_.size()), biases_.back());
      inputs = outputs;
    }
    labels_.push_back(ms::zeros<float>(device, {kBatch, 1}));
  }

  template <class Visit>
  void visit(Visit&& visit) const {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      visit(fmt::format("table{}", i), tables_[i]);
    }
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      visit(fmt::format("weight{}", i), weights_[i]);
      visit(fmt::format("bias{}", i), biases_[i]);
    }
  }
  [[nodiscard]] ms::checkpoint::Tensors tensors() const {
    return ms::checkpoint::Tensors(*this, optimizer_);
  }

  void run() {
    std::vector<ms::Tensor<float, R>> rows;
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      rows.push_back(ms::ops::embedding_lookup(tape_, tables_[i], ids_[i]));
    }
    auto hidden = ms::ops::concat(tape_, rows);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      auto const activation =
          i + 1 < weights_.size() ? ms::ops::Activation::relu : ms::ops::Activation::none;
      hidden = ms::ops::dense(tape_, hidden, weights_[i], biases_[i], activation);
    }
    auto const loss = ms::ops::mean_bce_with_logits(tape_, hidden, labels_[0]);
    tape_.backward(loss);
    optimizer_.step(tape_);
    tape_.clear();
    device_.current_group().synchronize();
  }

 private:
  static constexpr int kTables = 8;
  static constexpr std::int64_t kWidth = 64;
  static constexpr std::int64_t kBatch = 4096;
  static constexpr std::int64_t kHidden = 1024;

  ms::Device<R> device_;
  ms::GradientTape<R> tape_;
  ms::Optimizer<R> optimizer_;
  std::vector<ms::Tensor<float, R>> tables_;
  std::vector<ms::ops::Bags<R>> ids_;
  std::vector<ms::Tensor<float, R>> weights_;
  std::vector<ms::Tensor<float, R>> biases_;
  std::vector<ms::Tensor<float, R>> labels_;
};

struct Times {
  double mean_ms = 0;
  double longest_ms = 0;
  int steps = 0;
};

/// Runs steps while `goes_on()` returns true, at least `least` of them, and times each. The first
/// one includes `before()`.
template <class Train, class Before, class GoesOn>
Times timed(Train& step, int least, Before const& before, GoesOn const& goes_on) {
  using Clock = std::chrono::steady_clock;
  Times times;
  double sum = 0;
  for (; times.steps < least || goes_on(); ++times.steps) {
    auto const begin = Clock::now();
    if (times.steps == 0) {
      before();
    }
    step.run();
    double const ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    sum += ms;
    times.longest_ms = std::max(times.longest_ms, ms);
  }
  times.mean_ms = sum / times.steps;
  return times;
}

/// Measures the mean and the longest step until a checkpoint is complete, and as many steps without
/// one. The files go to the folder that MSSTREAM_BENCHMARK_FOLDER names, or to that for temporary
/// files.
template <ms::Runtime R>
void run(benchmark::State& state, std::int64_t table_rows, double device_share) {
  ms::Device<R> const device;
  ms::StreamPool<R> pool(device, {.groups = 1});
  ms::StreamScope<R> const scope(pool[0]);
  Step<R> step(device, table_rows);
  auto const tensors = step.tensors();
  auto const device_bytes =
      static_cast<std::size_t>(device_share * 1.001 * static_cast<double>(tensors.bytes()));
  auto const pinned_bytes =
      device_share < 1 ? tensors.bytes() + (std::uint64_t{64} << 20U) : std::uint64_t{64} << 20U;
  char const* const named = std::getenv("MSSTREAM_BENCHMARK_FOLDER");
  auto const folder =
      (named != nullptr ? std::filesystem::path(named) : std::filesystem::temp_directory_path()) /
      fmt::format("msstream-checkpoint-{}", ::getpid());
  Times with;
  Times without;
  double seconds = 0;
  {
    ms::checkpoint::Writer writer(tensors,
                                  {.folder = folder,
                                   .keep_last = 1,
                                   .device_bytes = device_bytes,
                                   .pinned_bytes = static_cast<std::size_t>(pinned_bytes)});
    std::int64_t number = 0;
    auto const nothing = [] {};
    auto const never = [] { return false; };
    timed(step, axes::kRunsPerRepetition + 10, nothing, never);
    for ([[maybe_unused]] auto _ : state) {
      auto const begin = std::chrono::steady_clock::now();
      with = timed(
          step, 1, [&] { writer.save({.step = ++number}); }, [&] { return writer.is_writing(); });
      writer.wait();
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      without = timed(step, with.steps, nothing, never);
      state.SetIterationTime(with.mean_ms / 1000);
    }
  }
  std::filesystem::remove_all(folder);
  state.counters["mean_to_without"] = with.mean_ms / without.mean_ms;
  state.counters["longest_more_ms"] = with.longest_ms - without.longest_ms;
  state.counters["mean_ms"] = with.mean_ms;
  state.counters["longest_ms"] = with.longest_ms;
  state.counters["steps"] = with.steps;
  state.counters["file_gb"] = static_cast<double>(tensors.bytes()) / 1e9;
  state.counters["seconds"] = seconds;
}

template <ms::Runtime R>
void add_all(std::int64_t table_rows) {
  for (double const share : {1.0, 0.0}) {
    add(fmt::format(
            "checkpoint/{}/{}", R::name, share == 1 ? "copied_on_device" : "copied_to_host"),
        1,
        [=](benchmark::State& state) { run<R>(state, table_rows, share); });
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(10'000);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  // Eight tables of 64 floats a row, with the state of Adagrad: 4.1 GB.
  add_all<ms::Cuda>(1'000'000);
#endif
}

}  // namespace benchmarks
