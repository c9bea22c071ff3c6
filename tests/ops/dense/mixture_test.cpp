// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/mixture.hpp>

#include <fmt/core.h>

#include <algorithm>

namespace msstream::testing {
namespace {

using ops::Gates;

/// The experts that each gate mixes: no gate mixes expert 3, and one gate mixes expert 0 twice.
Gates const kGates{{0, 4}, {2}, {4, 1, 0, 2, 0}};
constexpr int kExperts = 5;
constexpr std::size_t kChoices = 8;

/// A reference for a mixture of experts and its gradients, computed in double, row by row.
struct Reference {
  Doubles output;
  Doubles weights;
  Doubles expert_gradient;
  Doubles logits_gradient;

  /// Takes experts of shape [experts, batch, width], logits of shape [batch, choices], and output
  /// gradients of shape [gates, batch, width].
  Reference(Doubles const& experts,
            Doubles const& logits,
            Doubles const& gradient,
            std::size_t batch,
            std::size_t width)
      : output(kGates.size() * batch * width),
        weights(batch * kChoices),
        expert_gradient(kExperts * batch * width),
        logits_gradient(batch * kChoices) {
    for (std::size_t row = 0; row < batch; ++row) {
      std::size_t first = row * kChoices;
      for (std::size_t gate = 0; gate < kGates.size(); ++gate) {
        auto const& chosen = kGates[gate];
        double sum = 0;
        for (std::size_t k = 0; k < chosen.size(); ++k) {
          sum += std::exp(logits[first + k]);
        }
        double weighted = 0;
        for (std::size_t k = 0; k < chosen.size(); ++k) {
          double const weight = std::exp(logits[first + k]) / sum;
          weights[first + k] = weight;
          auto const place = (static_cast<std::size_t>(chosen[k]) * batch + row) * width;
          auto const out = (gate * batch + row) * width;
          double by_weight = 0;
          for (std::size_t column = 0; column < width; ++column) {
            output[out + column] += weight * experts[place + column];
            expert_gradient[place + column] += weight * gradient[out + column];
            by_weight += gradient[out + column] * experts[place + column];
          }
          logits_gradient[first + k] = by_weight;
          weighted += weight * by_weight;
        }
        for (std::size_t k = 0; k < chosen.size(); ++k) {
          logits_gradient[first + k] = weights[first + k] * (logits_gradient[first + k] - weighted);
        }
        first += chosen.size();
      }
    }
  }
};

template <class R>
class MixtureTest : public OpsTest<R> {
 protected:
  static Doubles part(Doubles const& of, std::int64_t begin, std::int64_t count) {
    return {of.begin() + begin, of.begin() + begin + count};
  }
};
TYPED_TEST_SUITE(MixtureTest, Runtimes, RuntimeNames);

TYPED_TEST(MixtureTest, and_its_gradients_agree_with_double) {
  for (std::int64_t const batch : {0, 1, 37}) {
    for (std::int64_t const width : {1, 5, 64, 132, 200}) {
      SCOPED_TRACE(fmt::format("batch {}, width {}", batch, width));
      auto const each = batch * width;
      auto const experts = this->random.reals(kExperts * each);
      auto const logits = this->random.reals(batch * std::int64_t{kChoices}, -3.0F, 3.0F);
      auto const gradient = this->random.reals(static_cast<std::int64_t>(kGates.size()) * each);
      Reference const expected(to_doubles(experts),
                               to_doubles(logits),
                               to_doubles(gradient),
                               static_cast<std::size_t>(batch),
                               static_cast<std::size_t>(width));
      auto const floats = [&](std::int64_t first, std::int64_t count) {
        return Floats(experts.begin() + first * each, experts.begin() + (first + count) * each);
      };
      std::vector<Tensor<float, TypeParam>> const tensors{
          this->put(floats(0, 3), {3, batch, width}),
          this->put(floats(3, 1), {batch, width}),
          this->put(floats(4, 1), {1, batch, width})};
      auto const mixture =
          ops::mix_experts(tensors, this->put(logits, {batch, std::int64_t{kChoices}}), kGates);
      EXPECT_EQ(mixture.output.shape(), (Shape{3, batch, width}));
      expect_near(to_host(mixture.output), expected.output, 1e-5);
      expect_near(to_host(mixture.weights.front()), expected.weights, 1e-5);
      for (bool const all : {true, false}) {
        auto const gradients =
            ops::mix_experts_gradient<TypeParam>(tensors,
                                                 {{mixture.weights.front(), kGates}},
                                                 this->put(gradient, {3, batch, width}),
                                                 {all, true, all});
        expect_near(to_host(gradients.logits.front()), expected.logits_gradient, 1e-5);
        ASSERT_EQ(gradients.experts.size(), 3U);
        ASSERT_EQ(gradients.experts[0].has_value(), all);
        expect_near(to_host(*gradients.experts[1]),
                    this->part(expected.expert_gradient, 3 * each, each),
                    1e-5);
        if (all) {
          EXPECT_EQ(gradients.experts[0]->shape(), tensors[0].shape());
          expect_near(to_host(*gradients.experts[0]),
                      this->part(expected.expert_gradient, 0, 3 * each),
                      1e-5);
          expect_near(to_host(*gradients.experts[2]),
                      this->part(expected.expert_gradient, 4 * each, each),
                      1e-5);
        }
      }
    }
  }
}

TYPED_TEST(MixtureTest, logits_of_gates_that_lie_one_behind_the_other_are_the_same) {
  constexpr std::int64_t kBatch = 6;
  Gates const gates{{0, 1}, {2, 1}};
  std::vector<Tensor<float, TypeParam>> const experts{this->random_tensor({3, kBatch, 8})};
  auto const packed = this->random.reals(kBatch * 4);
  Floats stacked;
  for (std::size_t gate = 0; gate < 2; ++gate) {
    for (std::size_t row = 0; row < kBatch; ++row) {
      stacked.insert(stacked.end(), {packed[row * 4 + gate * 2], packed[row * 4 + gate * 2 + 1]});
    }
  }
  auto const one = ops::mix_experts(experts, this->put(packed, {kBatch, 4}), gates);
  auto const other = ops::mix_experts(experts, this->put(stacked, {2, kBatch, 2}), gates);
  EXPECT_EQ(to_host(one.output), to_host(other.output));
  auto const upstream = this->random_tensor({2, kBatch, 8});
  auto const by_one = ops::mix_experts_gradient<TypeParam>(
      experts, {{one.weights.front(), gates}}, upstream, {true});
  auto const by_other = ops::mix_experts_gradient<TypeParam>(
      experts, {{other.weights.front(), gates}}, upstream, {true});
  EXPECT_EQ(to_host(*by_one.experts[0]), to_host(*by_other.experts[0]));
  auto const flat = to_host(by_one.logits.front());
  auto const deep = to_host(by_other.logits.front());
  EXPECT_EQ(by_other.logits.front().shape(), (Shape{2, kBatch, 2}));
  EXPECT_EQ(deep[2 * kBatch], flat[2]) << "the second gate's first";

  // Passes the gate logits in one tensor for each gate.
  Floats first;
  Floats second;
  for (std::size_t row = 0; row < kBatch; ++row) {
    first.insert(first.end(), {packed[row * 4], packed[row * 4 + 1]});
    second.insert(second.end(), {packed[row * 4 + 2], packed[row * 4 + 3]});
  }
  auto const apart = ops::mix_experts<TypeParam>(experts,
                                                 {{this->put(first, {kBatch, 2}), {gates[0]}},
                                                  {this->put(second, {1, kBatch, 2}), {gates[1]}}});
  EXPECT_EQ(to_host(apart.output), to_host(one.output));
  auto const by_apart = ops::mix_experts_gradient<TypeParam>(
      experts, {{apart.weights[0], {gates[0]}}, {apart.weights[1], {gates[1]}}}, upstream, {true});
  EXPECT_EQ(to_host(*by_apart.experts[0]), to_host(*by_one.experts[0]));
  auto const of_second = to_host(by_apart.logits[1]);
  EXPECT_EQ(Floats(deep.begin() + 2 * kBatch, deep.end()), of_second);
}

TYPED_TEST(MixtureTest, large_logits_do_not_overflow) {
  std::vector<Tensor<float, TypeParam>> const experts{this->put(Floats{1, 2}, {2, 1, 1})};
  auto const mixture = ops::mix_experts(experts, this->put(Floats{1e4F, 1e4F}, {1, 2}), {{0, 1}});
  EXPECT_EQ(to_host(mixture.output), (Floats{1.5F}));
}

TYPED_TEST(MixtureTest, refuses_what_does_not_fit) {
  using Tensors = std::vector<Tensor<float, TypeParam>>;
  auto const refused =
      [&](Tensors const& experts, Shape const& logits, Gates const& gates, auto const&... words) {
        expect_refused([&] { (void)ops::mix_experts(experts, this->any(logits), gates); },
                       "mix_experts",
                       words...);
      };
  Tensors const experts{this->any({3, 4, 8})};
  refused({}, {4, 2}, {{0}}, "no experts");
  refused({this->any({8})}, {4, 2}, {{0}}, "[8]");
  refused({this->any({4, 8}), this->any({4, 7})}, {4, 2}, {{0}}, "[4, 7]");
  refused(experts, {4, 2}, {}, "no gates");
  refused(experts, {4, 2}, {{0}, {}}, "gate 1");
  refused(experts, {4, 2}, {{0, 3}}, "expert 3 of 3");
  refused(experts, {4, 2}, {{0, -1}}, "expert -1");
  refused(experts, {4, 3}, {{0, 1}}, "[4, 3]");
  refused(experts, {2, 4, 2}, {{0, 1}, {0}}, "[2, 4, 2]");
  refused(experts, {2, 4, 1}, {{0, 1}, {0}}, "[2, 4, 1]");
  refused(experts, {4, 17}, Gates(17, {0}), "16 gates");
  refused(experts, {4, 129}, {std::vector<int>(129, 0)}, "128 choices");
  refused({this->any({65, 1, 1})}, {1, 1}, {{0}}, "65 experts");
}

}  // namespace
}  // namespace msstream::testing
