// SPDX-License-Identifier: Apache-2.0
// Trains one model in float32, bfloat16 and float16. The model is a template of the type between
// its layers; weights, gradients of weights and moments are float32 in each. float16 needs a loss
// scale, which begins far too high here: the first steps overflow, are skipped, and halve it.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/dense_stack.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace ms = msstream;
namespace ops = ms::ops;

namespace {

constexpr std::int64_t kBatch = 256;
constexpr std::int64_t kWidth = 16;
constexpr int kSteps = 40;

// Crosses of the inputs, and dense layers that give a logit. Inside, everything is of type T.
template <ms::RealElement T>
class Model {
 public:
  explicit Model(ms::Parameters<>& parameters)
      : cross_(parameters, "cross", kWidth, {.layers = 2, .rank = 8}),
        top_(parameters, "top", kWidth, {32, 1}) {}

  // Returns the logits [batch, 1], in float32 for the loss.
  auto operator()(auto& tape, ms::Tensor<float> const& features) const {
    auto const crossed = cross_(tape, ops::cast<T>(tape, features));
    return ops::cast<float>(tape, top_(tape, crossed));
  }

 private:
  ms::CrossNetwork<> cross_;
  ms::DenseStack<> top_;
};

struct Data {
  ms::Tensor<float> features;  // [batch, width], in [-1, 1)
  ms::Tensor<float> labels;    // [batch, 1]: 1 if the product of the first two is positive

  static Data on(ms::Device<> const& device) {
    std::vector<float> features;
    std::vector<float> labels;
    for (std::int64_t i = 0; i < kBatch * kWidth; ++i) {
      features.push_back(static_cast<float>(i * 7919 % 1024) / 512.0F - 1.0F);
    }
    for (std::int64_t row = 0; row < kBatch; ++row) {
      auto const at = static_cast<std::size_t>(row * kWidth);
      labels.push_back(features[at] * features[at + 1] > 0.0F ? 1.0F : 0.0F);
    }
    return {ms::to_device(device, features, {kBatch, kWidth}),
            ms::to_device(device, labels, {kBatch, 1})};
  }
};

template <ms::RealElement T>
float train(ms::Device<> const& device, Data const& data, char const* name) {
  ms::Parameters parameters(device, {.seed = 1});
  Model<T> const model(parameters);
  // bfloat16 has the range of float32, so that its scale could be 1.
  ms::LossScale const scale(device, {.initial = 0x1p30F});
  ms::Optimizer optimizer(
      device, {.kind = ops::OptimizerKind::adam, .learning_rate = 0.01F}, {.loss_scale = scale});
  optimizer.add(parameters);
  ms::GradientTape tape(device);
  auto const first_scale = scale.value();
  float loss_now = 0.0F;
  for (int step = 0; step < kSteps; ++step) {
    tape.without_gradient(data.features);
    auto const loss = ops::mean_bce_with_logits(tape, model(tape, data.features), data.labels);
    tape.backward(scale.scaled(tape, loss));
    optimizer.step(tape);
    tape.clear();
    loss_now = ms::to_host(loss)[0];
  }
  std::printf("%-8s loss %.2f, %d steps skipped, scale 2^%.0f, at first 2^%.0f\n",
              name,
              static_cast<double>(loss_now),
              static_cast<int>(optimizer.status().skipped),
              std::log2(static_cast<double>(scale.value())),
              std::log2(static_cast<double>(first_scale)));
  return loss_now;
}

// Dense layers in bfloat16 by an option: their input and output stay float32.
void check_stack(ms::Device<> const& device, Data const& data) {
  ms::Parameters parameters(device, {.seed = 1});
  ms::DenseStack const top(
      parameters, "top", kWidth, {64, 32, 1}, {.precision = ms::Precision::bf16});
  ms::DenseStack const same(parameters, "top", kWidth, {64, 32, 1}, {.shared = true});
  auto const half = ms::to_host(top(ms::no_tape, data.features))[0];
  auto const whole = ms::to_host(same(ms::no_tape, data.features))[0];
  teach::expect(half != whole && std::abs(half - whole) < 0.05F, "8 bits instead of 24");
  ms::DenseStack const eighth(parameters,
                              "eighth",
                              kWidth,
                              {64, 32, 1},
                              {.precision = ms::Precision::bf16, .fp8_products = true});
  ms::DenseStack const exact(parameters, "eighth", kWidth, {64, 32, 1}, {.shared = true});
  auto const quantised = ms::to_host(eighth(ms::no_tape, data.features))[0];
  auto const of_floats = ms::to_host(exact(ms::no_tape, data.features))[0];
  teach::expect(quantised != of_floats && std::abs(quantised - of_floats) < 0.1F,
                "products of 8-bit floats");
}

void check() {
  ms::Device<> const device;
  auto const data = Data::on(device);
  auto const exact = train<float>(device, data, "float32");
  auto const bf16 = train<ms::bfloat16>(device, data, "bfloat16");
  auto const fp16 = train<ms::float16>(device, data, "float16");
  check_stack(device, data);
  teach::expect(exact < 0.5F, "the loss of float32");
  teach::expect(std::abs(bf16 - exact) < 0.1F, "the loss of bfloat16");
  teach::expect(std::abs(fp16 - exact) < 0.1F, "the loss of float16");
}

}  // namespace

int main() {
  return teach::run(check);
}
