// SPDX-License-Identifier: Apache-2.0
// Tests OptimizerOptions::copies: the copies of parameters in half precision are read where they
// are current, and nowhere else.
#include "ops/common/half_copies.hpp"

#include "memory/blocks/block.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/ops/cast.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameter_averages.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/detail/exchange.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

/// Dense layers of T, whose parameters a program trains, and writes by other means.
template <Runtime R, class T>
class CopiedLayers {
 public:
  CopiedLayers(Device<R> const& device,
               int groups,
               OptimizerOptions const& options,
               std::optional<LossScale<R>> const& scale = {})
      : device_(device),
        pool_(device, {.groups = groups}),
        tape_(device),
        optimizer_(device, {.kind = ops::OptimizerKind::adagrad, .learning_rate = 0.25F}, options),
        scale_(scale),
        x_(random_tensor({kBatch, kWidths[0]})),
        y_(random_tensor({kBatch, 1})) {
    for (std::size_t i = 0; i + 1 < std::size(kWidths); ++i) {
      weights_.push_back(random_tensor({kWidths[i], kWidths[i + 1]}));
      biases_.push_back(random_tensor({kWidths[i + 1]}));
      optimizer_.add(fmt::format("weight{}", i), weights_.back());
      optimizer_.add(fmt::format("bias{}", i), biases_.back());
      averages_.add(fmt::format("weight{}", i), weights_.back());
    }
  }

  void step() {
    tape_.without_gradient(x_);
    auto const now = forward();
    tape_.backward(scale_ ? scale_->scaled(tape_, now) : now);
    optimizer_.step(tape_);
    tape_.clear();
  }
  /// Computes the loss without a step.
  void look() {
    (void)forward();
    tape_.clear();
  }
  /// Captures steps, and replays them once.
  void capture(int steps) {
    captured_.reset();
    captured_.emplace(device_, [&] {
      for (int i = 0; i < steps; ++i) {
        step();
      }
    });
    captured_->replay();
  }
  void replay() {
    if (captured_) {
      captured_->replay();
    } else {
      capture(1);
    }
  }
  /// Captures a step that ends in an exception.
  void fail_to_capture() {
    EXPECT_THROW(CapturedStep<R>(device_,
                                 [&] {
                                   step();
                                   throw std::runtime_error("no step");
                                 }),
                 std::runtime_error);
    tape_.clear();
    loss_.reset();
  }
  /// Captures a step that writes a weight before and a bias after it, and replays it once.
  void capture_with_writes(std::size_t i) {
    auto const weight = random_tensor(weights_[i].shape());
    auto const bias = random_tensor(biases_[i].shape());
    captured_.reset();
    captured_.emplace(device_, [&] {
      copy(weights_[i], weight);
      step();
      copy(biases_[i], bias);
    });
    captured_->replay();
  }
  void write(std::size_t i) { copy(weights_[i], values_for(i)); }
  /// Returns other values for a weight.
  [[nodiscard]] Tensor<float, R> values_for(std::size_t i) {
    return random_tensor(weights_[i].shape());
  }
  void look_at_averages() {
    averages_.update();
    auto const swapped = averages_.swap_in();
    look();
  }

  /// Returns the loss that was computed last, and all parameters.
  [[nodiscard]] Floats numbers() const {
    auto all = loss_ ? to_host(*loss_) : Floats{};
    for (auto const* const tensors : {&weights_, &biases_}) {
      for (auto const& tensor : *tensors) {
        auto const values = to_host(tensor);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }
  /// Returns a layer's parameters in half precision, as layers read them.
  [[nodiscard]] std::vector<detail::AnyTensor> halves(std::size_t i) const {
    return ops::detail::halves_of(
        {weights_[i].any(), biases_[i].any()}, dtype_of<T>, std::source_location::current());
  }
  /// Returns whether a layer reads the weight's copy: a cast would be in other memory each time.
  [[nodiscard]] bool reads_copy(std::size_t i) const {
    auto const first = halves(i)[0];
    auto const second = halves(i)[0];
    return first.data() == second.data();
  }
  void expect_halves() const {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      auto const own = halves(i);
      expect_rounded(weights_[i], own[0]);
      expect_rounded(biases_[i], own[1]);
    }
  }
  [[nodiscard]] auto const& weight(std::size_t i) const { return weights_[i]; }
  [[nodiscard]] Optimizer<R>& optimizer() { return optimizer_; }
  [[nodiscard]] CapturedStep<R>& captured() { return *captured_; }

 private:
  static constexpr std::int64_t kBatch = 24;
  static constexpr std::int64_t kWidths[] = {13, 16, 9, 1};  // the first layer is padded

  [[nodiscard]] Tensor<float, R> random_tensor(Shape const& shape) {
    Floats values;
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      values.push_back(static_cast<float>(random_() % 2'001) / 1'000.0F - 1.0F);
    }
    return to_device(device_, values, shape);
  }
  [[nodiscard]] Tensor<float, R> forward() {
    StreamScope const scope(pool_[steps_++ % pool_.groups()], {.include_grad = true});
    auto layer = ops::cast<T>(tape_, x_);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      layer = ops::dense(tape_,
                         layer,
                         weights_[i],
                         biases_[i],
                         i + 1 < weights_.size() ? ops::Activation::relu : ops::Activation::none);
    }
    loss_ = ops::mse_loss(tape_, ops::cast<float>(tape_, layer), y_);
    return *loss_;
  }
  static void expect_rounded(Tensor<float, R> const& whole, detail::AnyTensor const& half) {
    auto const values = to_host(whole);
    auto const found = to_host(Tensor<T, R>(detail::OfKnownType(), half));
    ASSERT_EQ(values.size(), found.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(found[i].bits, from_float<T>(values[i]).bits) << "element " << i;
    }
  }

  std::minstd_rand random_{7};
  Device<R> device_;
  StreamPool<R> pool_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
  std::optional<LossScale<R>> scale_;
  Tensor<float, R> x_;
  Tensor<float, R> y_;
  std::vector<Tensor<float, R>> weights_;
  std::vector<Tensor<float, R>> biases_;
  ParameterAverages<R> averages_{0.75F};
  std::optional<Tensor<float, R>> loss_;
  std::optional<CapturedStep<R>> captured_;
  int steps_ = 0;
};

template <class R>
class HalfCopiesTest : public OpsTest<R> {
 protected:
  /// Runs a random program on two models, of which one has copies, and expects equal bits.
  template <class T>
  void expect_equal_programs(Precision precision, int groups, unsigned seed) {
    CopiedLayers<R, T> plain(this->device(), groups, {});
    CopiedLayers<R, T> copied(this->device(), groups, {.copies = precision});
    std::minstd_rand random(seed);
    std::string program;
    for (int i = 0; i < 40; ++i) {
      auto const action = random() % 10;
      std::size_t const layer = random() % 3;
      program += fmt::format(" {}", action);
      SCOPED_TRACE(fmt::format("seed {}, {} groups, program{}", seed, groups, program));
      for (auto* const model : {&plain, &copied}) {
        switch (action) {
          case 0:
          case 1:
            model->step();
            break;
          case 2:
          case 3:
          case 4:
            model->replay();
            break;
          case 5:
            model->write(layer);
            break;
          case 6:
            model->look_at_averages();
            break;
          case 7:
            model->fail_to_capture();
            break;
          case 8:
            model->capture(2);
            break;
          default:
            model->capture_with_writes(layer);
        }
      }
      ASSERT_EQ(copied.numbers(), plain.numbers());
      if (i % 3 == 0) {
        copied.look();
        plain.look();
        ASSERT_EQ(copied.numbers(), plain.numbers());
        copied.expect_halves();
      }
    }
  }
};
TYPED_TEST_SUITE(HalfCopiesTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(HalfCopiesTest, programs_have_the_bits_of_casts) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    int const groups = seed % 2 == 0 ? 3 : 1;
    this->template expect_equal_programs<bfloat16>(Precision::bf16, groups, seed);
    this->template expect_equal_programs<float16>(Precision::fp16, groups, 100 + seed);
  }
}

TYPED_TEST(HalfCopiesTest, copies_are_read_after_an_update_until_a_write) {
  CopiedLayers<TypeParam, bfloat16> model(this->device(), 1, {.copies = Precision::bf16});
  EXPECT_FALSE(model.reads_copy(0));
  model.step();
  EXPECT_TRUE(model.reads_copy(0));
  model.write(1);
  EXPECT_TRUE(model.reads_copy(0));
  EXPECT_FALSE(model.reads_copy(1));
  model.step();
  EXPECT_TRUE(model.reads_copy(1));
  model.look_at_averages();
  EXPECT_FALSE(model.reads_copy(0));
  model.replay();
  EXPECT_TRUE(model.reads_copy(0));
  // A cast of another type reads no copy.
  auto const other = [&] {
    return ops::detail::halves_of(
        {model.weight(0).any()}, DType::float16, std::source_location::current())[0];
  };
  auto const one = other();
  EXPECT_NE(one.data(), other().data());
}

TYPED_TEST(HalfCopiesTest, captured_steps_read_copies_and_not_those_of_captured_writes) {
  CopiedLayers<TypeParam, bfloat16> model(this->device(), 1, {.copies = Precision::bf16});
  bool reads_at_first = false;
  bool reads_after_write = true;
  bool reads_after_step = false;
  auto const values = model.values_for(0);
  CapturedStep<TypeParam> captured(this->device(), [&] {
    reads_at_first = model.reads_copy(0);
    copy(model.weight(0), values);
    reads_after_write = model.reads_copy(0);
    model.step();
    reads_after_step = model.reads_copy(0);
  });
  EXPECT_TRUE(reads_at_first);
  EXPECT_FALSE(reads_after_write);
  EXPECT_TRUE(reads_after_step);
  EXPECT_FALSE(model.reads_copy(0));
  captured.replay();
  EXPECT_TRUE(model.reads_copy(0));
  model.expect_halves();
}

TYPED_TEST(HalfCopiesTest, memory_that_others_may_write_has_no_current_copy) {
  CopiedLayers<TypeParam, bfloat16> model(this->device(), 1, {.copies = Precision::bf16});
  model.capture(1);
  model.step();
  ASSERT_TRUE(model.reads_copy(0));
  Stream<TypeParam> const stream(this->device());
  auto const& weight = model.weight(0);
  {
    TensorHolder holder(stream);
    holder.hold(weight);
    this->device().runtime().fill(weight.data(), 0, weight.bytes(), stream.native());
  }
  EXPECT_FALSE(model.reads_copy(0));
  EXPECT_TRUE(model.reads_copy(1));
  detail::await_uses(model.weight(1).any(), "to_dlpack");
  EXPECT_FALSE(model.reads_copy(1));
  model.expect_halves();
  for (int i = 0; i < 2; ++i) {
    model.replay();
    EXPECT_FALSE(model.reads_copy(0));
    model.expect_halves();
  }
}

TYPED_TEST(HalfCopiesTest, steps_that_are_skipped_leave_copies_right) {
  auto const trained = [&](Precision copies) {
    LossScale<TypeParam> const scale(this->device(), {.initial = 0x1p24F});
    CopiedLayers<TypeParam, float16> model(
        this->device(), 1, {.loss_scale = scale, .copies = copies}, scale);
    std::vector<Floats> all;
    for (int i = 0; i < 16; ++i) {
      if (i % 5 == 4) {
        model.write(1);
      }
      i % 2 == 0 ? model.step() : model.replay();
      all.push_back(model.numbers());
      model.expect_halves();
    }
    EXPECT_GT(model.optimizer().status().skipped, 2);
    EXPECT_LT(model.optimizer().status().skipped, 14);
    return all;
  };
  EXPECT_EQ(trained(Precision::fp16), trained(Precision::fp32));
}

TYPED_TEST(HalfCopiesTest, each_optimizer_of_a_parameter_has_a_copy_of_its_own) {
  auto const weight = this->random_tensor({8, 3});
  auto const input = this->random_tensor({5, 8});
  GradientTape<TypeParam> tape(this->device());
  auto const move = [&](Optimizer<TypeParam>& optimizer) {
    tape.backward(ops::mean(tape, ops::matmul(tape, input, weight)));
    optimizer.step(tape);
    tape.clear();
  };
  auto const reads_copy = [&] {
    auto const half = [&] {
      return ops::detail::halves_of(
          {weight.any()}, DType::bfloat16, std::source_location::current())[0];
    };
    auto const one = half();
    EXPECT_EQ(to_doubles(to_host(Tensor<bfloat16, TypeParam>(detail::OfKnownType(), one))),
              to_doubles(to_host(ops::cast<bfloat16>(weight))));
    return one.data() == half().data();
  };
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::adam, .learning_rate = 0.01F},
                                 {.copies = Precision::bf16});
  optimizer.add("weight", weight);
  move(optimizer);
  EXPECT_TRUE(reads_copy());
  {
    Optimizer<TypeParam> other(
        this->device(),
        {.kind = ops::OptimizerKind::lamb, .learning_rate = 0.01F, .weight_decay = 0.1F},
        {.copies = Precision::bf16});
    other.add("weight", weight);
    EXPECT_FALSE(reads_copy());
    move(other);
    EXPECT_TRUE(reads_copy());
  }
  EXPECT_FALSE(reads_copy());
  move(optimizer);
  EXPECT_TRUE(reads_copy());
}

TYPED_TEST(HalfCopiesTest, the_graph_of_a_step_with_copies_is_not_given_away) {
  CopiedLayers<TypeParam, bfloat16> copied(this->device(), 1, {.copies = Precision::bf16});
  CopiedLayers<TypeParam, bfloat16> plain(this->device(), 1, {});
  copied.capture(1);
  plain.capture(1);
  EXPECT_THROW((void)copied.captured().native(), std::logic_error);
  EXPECT_NO_THROW((void)plain.captured().native());
}

TYPED_TEST(HalfCopiesTest, a_parameter_that_a_graph_given_away_writes_has_no_current_copy) {
  CopiedLayers<TypeParam, bfloat16> model(this->device(), 1, {.copies = Precision::bf16});
  model.step();
  auto const values = model.values_for(0);
  CapturedStep<TypeParam> const writes(this->device(), [&] { copy(model.weight(0), values); });
  ASSERT_TRUE(model.reads_copy(0));
  (void)writes.native();  // the tracker sees no launch of it
  EXPECT_FALSE(model.reads_copy(0));
  EXPECT_TRUE(model.reads_copy(1));
  model.step();
  EXPECT_FALSE(model.reads_copy(0));
}

TYPED_TEST(HalfCopiesTest, memory_that_was_given_to_others_can_have_copies_when_it_is_used_again) {
  auto const make = [&] { return this->random_tensor({512, 512}); };
  void const* first = nullptr;
  {
    auto const given = make();
    detail::await_uses(given.any(), "to_dlpack");
    first = given.data();
  }
  auto const again = make();
  ASSERT_EQ(again.data(), first);
  EXPECT_FALSE(again.any().block()->shared_outside);
}

// Without the lock around a replay, the thread sanitizer finds its count of writes shared.
TYPED_TEST(HalfCopiesTest, threads_replay_a_step_with_copies_at_once) {
  CopiedLayers<TypeParam, bfloat16> model(this->device(), 1, {.copies = Precision::bf16});
  model.capture(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int replay = 0; replay < 20; ++replay) {
        model.captured().replay();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(model.reads_copy(0));
  model.expect_halves();
}

TYPED_TEST(HalfCopiesTest, an_unknown_precision_is_refused) {
  EXPECT_THROW((Optimizer<TypeParam>(this->device(),
                                     {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F},
                                     {.copies = static_cast<Precision>(7)})),
               std::invalid_argument);
}

}  // namespace
}  // namespace msstream::testing
