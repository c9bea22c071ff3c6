// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_cuda_fixture.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace train_wdl {
namespace ms = msstream;
}  // namespace train_wdl

// The example's header uses the namespace alias train_wdl::ms, which must be defined before.
#include "wide_deep.hpp"

#include <msstream/memory/device.hpp>

namespace fake_cuda {

/// The training step of the train_wdl example: a batch uploaded ahead on the copy stream, one
/// branch per field on alternating groups, a trunk on group 0, the backward pass, the optimizer,
/// and a copy of the loss to the host.
class TrainingStep {
 public:
  static constexpr std::int64_t kFields = 6;
  static constexpr std::int64_t kBatch = 64;
  static constexpr std::int64_t kContinuous = 4;
  /// The minimum by which memory grows at a time, so that a test notices growth in any step.
  static constexpr std::size_t kGrowthBytes = std::size_t{1} << 16U;

  explicit TrainingStep(int groups, bool reduce_waits = true)
      : device_({.reduce_waits = reduce_waits, .memory = {.max_growth_bytes = kGrowthBytes}}),
        pool_(device_, {.groups = groups}) {
    optimizer_.add(model_.parameters());
  }

  /// Issues a training step for the batch that was uploaded before, and uploads the next batch.
  void issue() {
    auto const batch = std::move(ahead_);
    ahead_ = upload();
    auto const logits = model_.forward(tape_, pool_, batch);
    auto const loss = ms::ops::mean_bce_with_logits(tape_, logits, batch.labels);
    tape_.backward(loss);
    optimizer_.step(tape_);
    tape_.clear();
    PinnedFloats staged(device_, 1);
    ms::copy(staged, loss);
    losses_.push_back(std::move(staged));
  }
  /// Waits for the losses of all steps except for the newest `leave` steps.
  void harvest(std::size_t leave) {
    for (; losses_.size() > leave; losses_.pop_front()) {
      losses_.front().wait();
    }
  }

  [[nodiscard]] std::uint64_t operation_count() const { return device_.operation_count(); }

 private:
  using Batch = train_wdl::DeviceBatch<ms::Cuda>;

  static train_wdl::WideDeepShape shape() {
    train_wdl::WideDeepShape shape{.fields = {},
                                   .table_rows = std::vector<std::int64_t>(kFields, 1000),
                                   .continuous = kContinuous,
                                   .embedding_dim = 8,
                                   .layers = {32, 16},
                                   .seed = 1};
    for (std::int64_t i = 0; i < kFields; ++i) {
      shape.fields.push_back("field" + std::to_string(i));
    }
    return shape;
  }

  Batch upload() {
    Scope const scope(pool_[0]);
    Ids const keys(device_, {kFields, kBatch});
    Floats const floats(device_, {kBatch * (kContinuous + 1)});
    ms::copy(keys, keys_);
    ms::copy(floats, floats_);
    ms::publish(keys);
    ms::publish(floats);
    auto const values = floats.rows(0, kBatch * kContinuous).reshaped({kBatch, kContinuous});
    auto const labels =
        floats.rows(kBatch * kContinuous, kBatch * (kContinuous + 1)).reshaped({kBatch, 1});
    return {keys, values, labels};
  }

  Device device_;
  Pool pool_;
  Scope trunk_{pool_[0]};
  ms::GradientTape<ms::Cuda> tape_{device_};
  train_wdl::WideDeep<ms::Cuda> model_{device_, shape()};
  ms::Optimizer<ms::Cuda> optimizer_{
      device_, {.kind = ms::ops::OptimizerKind::adagrad, .learning_rate = 0.1F}};
  ms::PinnedArray<std::int64_t, ms::Cuda> keys_{device_, static_cast<std::size_t>(kFields* kBatch)};
  PinnedFloats floats_{device_, static_cast<std::size_t>(kBatch*(kContinuous + 1))};
  Batch ahead_ = upload();
  std::deque<PinnedFloats> losses_;
};

}  // namespace fake_cuda
