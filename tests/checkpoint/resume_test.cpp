// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_folder.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/checkpoint/writer.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <limits>

namespace msstream::testing {
namespace {

/// A table and two layers with an Adam optimizer, trained on batches that depend on the step alone.
template <class R>
class ResumedModel {
 public:
  explicit ResumedModel(Device<R> const& device)
      : device_(device),
        table_(to_device(device, values(40 * 4, 1), {40, 4})),
        first_(to_device(device, values(8 * 5, 2), {8, 5})),
        second_(to_device(device, values(5, 3), {5, 1})),
        bias_(zeros<float>(device, {5})),
        tape_(device),
        optimizer_(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 0.05F}) {
    optimizer_.add_table("table", table_);
    optimizer_.add("first", first_);
    optimizer_.add("second", second_);
    optimizer_.add("bias", bias_);
  }

  template <class Visit>
  void visit(Visit&& visit) const {
    visit("table", table_);
    visit("first", first_);
    visit("second", second_);
    visit("bias", bias_);
  }
  [[nodiscard]] checkpoint::Tensors saved() const { return checkpoint::Tensors(*this, optimizer_); }

  /// Trains one step, and returns the loss.
  float step(std::int64_t number) {
    std::vector<std::int64_t> ids;
    std::vector<float> labels;
    for (std::int64_t i = 0; i < 2 * kBatch; ++i) {
      ids.push_back((number * 7 + i * 11) % 40);
    }
    for (std::int64_t i = 0; i < kBatch; ++i) {
      labels.push_back(static_cast<float>((number + i) % 3 == 0));
    }
    auto const bags = ops::Bags<R>(to_device(device_, ids, {kBatch * 2}));
    auto const rows = ops::embedding_lookup(tape_, table_, bags).reshaped({kBatch, 8});
    auto const hidden = ops::dense(tape_, rows, first_, bias_, ops::Activation::relu);
    auto const logits = ops::matmul(tape_, hidden, second_);
    auto const loss =
        ops::mean_bce_with_logits(tape_, logits, to_device(device_, labels, {kBatch, 1}));
    tape_.backward(loss);
    optimizer_.step(tape_);
    tape_.clear();
    return to_host(loss)[0];
  }

 private:
  static constexpr std::int64_t kBatch = 16;

  static std::vector<float> values(std::size_t count, unsigned seed) {
    std::vector<float> out(count);
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = static_cast<float>((i * 37 + seed * 101) % 17) / 17.0F - 0.5F;
    }
    return out;
  }

  Device<R> device_;
  Tensor<float, R> table_;
  Tensor<float, R> first_;
  Tensor<float, R> second_;
  Tensor<float, R> bias_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
};

template <class R>
class ResumeTest : public OpsTest<R> {};
TYPED_TEST_SUITE(ResumeTest, Runtimes, RuntimeNames);

TYPED_TEST(ResumeTest, a_resumed_training_has_the_same_bits) {
  TemporaryFolder const folder;
  std::vector<float> losses;
  {
    Device<TypeParam> const device;
    StreamPool pool(device, {.groups = 1});
    StreamScope const scope(pool[0]);
    ResumedModel<TypeParam> model(device);
    checkpoint::Writer staged(model.saved(), {.folder = folder / "staged", .keep_last = 0});
    checkpoint::Writer direct(model.saved(),
                              {.folder = folder / "direct", .keep_last = 0, .device_bytes = 0});
    for (std::int64_t step = 0; step < 10; ++step) {
      losses.push_back(model.step(step));
      staged.save({.step = step + 1, .metadata = {{"row", std::to_string(16 * (step + 1))}}});
      direct.save({.step = step + 1});
    }
  }
  for (auto const* kind : {"staged", "direct"}) {
    for (int const from : {1, 5, 9}) {
      Device<TypeParam> const device;
      ResumedModel<TypeParam> model(device);
      auto const loaded = checkpoint::load(
          folder / kind / ("checkpoint-00000000" + std::to_string(from) + ".safetensors"),
          model.saved());
      ASSERT_EQ(loaded.step, from);
      for (auto step = loaded.step; step < 10; ++step) {
        EXPECT_EQ(model.step(step), losses[static_cast<std::size_t>(step)])
            << kind << " from " << from << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace msstream::testing
