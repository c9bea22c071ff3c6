// SPDX-License-Identifier: Apache-2.0
#include "ple_branches.hpp"
#include "ple_grouped.hpp"
#include "random_ple.hpp"
#include "step_training.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/metrics/calibration.hpp>
#include <msstream/metrics/log_loss.hpp>
#include <msstream/metrics/metric_set.hpp>
#include <msstream/ops/random.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

/// Benchmarks of a whole training step of the train_ple model, in its two forms, eager and
/// captured, and with what a trainer adds to a step: a schedule, weight decay, dropout, metrics and
/// clipping by global norm.
namespace benchmarks {
namespace {

using Ple = axes::Ple;
using train_ple::DeviceBatch;
using train_ple::PleShape;

template <ms::Runtime R, template <class> class Model>
void add_form(char const* form,
              StepSetting const& setting,
              std::int64_t batch,
              int steps,
              std::int64_t divisor,
              Groups groups,
              ms::ops::OptimizerRule const& rule = {.kind = ms::ops::OptimizerKind::sgd,
                                                    .learning_rate = 0.01F}) {
  auto const name =
      fmt::format("ple_step/{}/batch:{}/{}/{}", R::name, batch, form, name_of(setting, groups));
  add(name, axes::kRunsPerRepetition, [=](benchmark::State& state) {
    auto const training =
        make_training<R>(state, name, setting, groups, rule, [&](ms::Device<R> const& device) {
          return std::pair(Model<R>(device, random_ple_shape(divisor)),
                           random_ple_batch(device, batch));
        });
    time_steps(state, *training, steps);
  });
}
// Aliases without a concept: a template with a concept on its parameter does not match `template
// <class> class`.
template <class R>
using Branches = train_ple::PleBranches<R>;
template <class R>
using Grouped = train_ple::PleGrouped<R>;

template <ms::Runtime R>
void add_both(StepSetting const& setting,
              std::int64_t batch,
              int steps,
              std::int64_t divisor,
              Groups groups = Groups::own) {
  add_form<R, Branches>("branches", setting, batch, steps, divisor, groups);
  add_form<R, Grouped>("grouped", setting, batch, steps, divisor, groups);
}

/// What a trainer adds to the forward pass.
struct Extras {
  bool has_dropout = false;
  bool has_metrics = false;
};

/// The grouped form with dropout between the experts and the towers, and metrics of the logits. The
/// random step and the metrics are branches of their own: nothing of the step waits for the
/// metrics.
template <ms::Runtime R, Extras kExtras>
class Trained : public Grouped<R> {
 public:
  Trained(ms::Device<R> const& device, PleShape const& shape)
      : Grouped<R>(device, shape),
        random_(device, {.seed = kPleSeed}),
        metrics_(ms::metrics::BucketedAuc<R>(device),
                 ms::metrics::LogLoss<R>(device),
                 ms::metrics::Calibration<R>(device)) {}

  [[nodiscard]] ms::Tensor<float, R> loss(ms::GradientTape<R>& tape,
                                          ms::StreamPool<R>& pool,
                                          DeviceBatch<R> const& batch) const {
    ms::StreamScope<R> const main(pool[0], {.include_grad = true});
    if constexpr (kExtras.has_dropout) {
      ms::StreamScope<R> const side(pool[1 % pool.groups()]);
      random_.advance();
    }
    auto const logits =
        this->stacked_logits(tape, pool, batch, [&]<class T>(ms::Tensor<T, R> const& input) {
          if constexpr (kExtras.has_dropout) {
            auto const wide = ms::ops::cast<float>(tape, input);
            return ms::ops::cast<T>(
                tape, ms::ops::dropout(tape, wide, {.rate = 0.1F}, random_, "dropout"));
          } else {
            return input;
          }
        });
    if constexpr (kExtras.has_metrics) {
      ms::StreamScope<R> const side(pool[1 % pool.groups()]);
      metrics_.update(logits, batch.labels);
    }
    return this->loss_of(tape, logits, batch);
  }

 private:
  ms::RandomGenerator<R> mutable random_;
  ms::metrics::MetricSet<R> metrics_;
};
template <class R>
using WithDropout = Trained<R, {.has_dropout = true}>;
template <class R>
using WithMetrics = Trained<R, {.has_metrics = true}>;
template <class R>
using WithExtras = Trained<R, {.has_dropout = true, .has_metrics = true}>;

/// Adds captured steps that differ in what a trainer adds to them.
template <ms::Runtime R>
void add_extras(StepSetting setting, std::int64_t batch, int steps, std::int64_t divisor) {
  auto const rule = [](float decay) {
    return ms::ops::OptimizerRule{
        .kind = ms::ops::OptimizerKind::adam, .learning_rate = 0.001F, .weight_decay = decay};
  };
  auto const own = Groups::own;
  add_form<R, Grouped>("trainer/plain", setting, batch, steps, divisor, own, rule(0.0F));
  add_form<R, WithDropout>("trainer/dropout", setting, batch, steps, divisor, own, rule(0.0F));
  add_form<R, WithMetrics>("trainer/metrics", setting, batch, steps, divisor, own, rule(0.0F));
  setting.schedule = ms::Schedule::cosine({.steps = 100'000, .warmup = {.steps = 1'000}});
  add_form<R, Grouped>("trainer/schedule", setting, batch, steps, divisor, own, rule(0.01F));
  add_form<R, WithExtras>("trainer/extras", setting, batch, steps, divisor, own, rule(0.01F));
  setting.clip_norm = 1.0F;
  add_form<R, WithExtras>(
      "trainer/extras_and_clipping", setting, batch, steps, divisor, own, rule(0.01F));
}

}  // namespace

void add_host_benchmarks() {
  add_extras<ms::Host>({.groups = 4, .captured = true},
                       Ple::kBatches[0] / axes::kHostPleDivisor,
                       axes::kHostSteps,
                       axes::kHostPleDivisor);
  for (int const groups : {1, 4}) {
    for (bool const captured : {false, true}) {
      add_both<ms::Host>({.groups = groups, .captured = captured},
                         Ple::kBatches[0] / axes::kHostPleDivisor,
                         axes::kHostSteps,
                         axes::kHostPleDivisor);
    }
  }
  for (bool const captured : {false, true}) {
    add_both<ms::Host>({.groups = 4, .captured = captured, .reduce_waits = false},
                       Ple::kBatches[0] / axes::kHostPleDivisor,
                       axes::kHostSteps,
                       axes::kHostPleDivisor);
  }
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  using enum ms::MatmulPrecision;
  for (std::int64_t const batch : {std::int64_t{512}, std::int64_t{4096}}) {
    add_extras<ms::Cuda>({.groups = Ple::kGroups.back(), .captured = true, .precision = tf32},
                         batch,
                         axes::kCudaSteps,
                         1);
  }
  for (auto const batch : Ple::kBatches) {
    for (auto const precision : {float32, tf32}) {
      for (int const groups : Ple::kGroups) {
        add_both<ms::Cuda>({.groups = groups, .captured = true, .precision = precision},
                           batch,
                           axes::kCudaSteps,
                           1);
      }
    }
  }
  add_both<ms::Cuda>({.groups = Ple::kGroups.back(), .captured = true, .precision = tf32},
                     Ple::kBatches[0],
                     axes::kCudaSteps,
                     1,
                     Groups::chosen);
  for (bool const captured : {false, true}) {
    add_both<ms::Cuda>({.groups = Ple::kGroups.back(),
                        .captured = captured,
                        .precision = tf32,
                        .reduce_waits = false},
                       Ple::kBatches[0],
                       axes::kCudaSteps,
                       1);
  }
  for (int const groups : Ple::kGroups) {
    for (bool const captured : {false, true}) {
      add_form<ms::Cuda, Branches>(
          "branches",
          {.groups = groups, .captured = captured, .precision = tf32, .tables_together = true},
          Ple::kBatches[0],
          axes::kCudaSteps,
          1,
          Groups::own);
    }
    for (auto const threads : {ms::LaunchThreads::none, ms::LaunchThreads::per_group}) {
      add_both<ms::Cuda>({.groups = groups, .launch_threads = threads, .precision = tf32},
                         Ple::kBatches[0],
                         axes::kCudaSteps,
                         1);
    }
  }
#endif
}

}  // namespace benchmarks
