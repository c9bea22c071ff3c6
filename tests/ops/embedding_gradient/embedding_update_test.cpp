// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"
#include "ops/optimizer/optimizer_reference.hpp"

#include <msstream/base/format.hpp>
#include <msstream/ops/optimizer.hpp>

#include <fmt/core.h>

namespace msstream::testing {
namespace {

using ops::Bags;
using ops::OptimizerKind;
using ops::Pooling;

constexpr std::int64_t kTableRows = 40;

template <class R>
class EmbeddingUpdateOpsTest : public OpsTest<R> {
 protected:
  template <class T>
  void expect_the_bits_of_update_rows(OptimizerKind kind, std::int64_t places) {
    SCOPED_TRACE(fmt::format("kind {}, {}", static_cast<int>(kind), dtype_of<T>));
    constexpr std::int64_t kWidth = 8;
    std::vector<T> start;
    for (float const value : this->random.reals(kTableRows * kWidth)) {
      start.push_back(from_float<T>(value));
    }
    ops::OptimizerRule rule{.kind = kind, .learning_rate = 0.01F};
    rule.weight_decay = 0.05F;
    rule.clip_value = 0.4F;
    rule.l1 = kind == OptimizerKind::ftrl ? 0.01F : 0.0F;
    ops::StepCounter step(this->device(), Schedule::constant({.steps = 2}));
    auto const fused = this->put(start, {kTableRows, kWidth});
    auto const apart = this->put(start, {kTableRows, kWidth});
    auto const fused_state = ops::make_state(this->device(), kind, fused.shape());
    auto const apart_state = ops::make_state(this->device(), kind, fused.shape());
    for (int t = 0; t < 3; ++t) {
      Bags<R> const bags(this->put(this->random.integers(places, -2, kTableRows), {places / 2, 2}));
      auto const unique = ops::deduplicate(bags, kTableRows);
      auto const gradient = this->random_tensor({places / 2, kWidth});
      step.advance(rule);
      ops::update_embedding(rule, step, fused, fused_state, bags, unique, Pooling::mean, gradient);
      ops::update_rows(rule,
                       step,
                       apart,
                       ops::embedding_gradient(bags, unique, kTableRows, Pooling::mean, gradient),
                       apart_state);
    }
    EXPECT_EQ(to_doubles(to_host(fused)), to_doubles(to_host(apart)));
    EXPECT_NE(to_doubles(to_host(fused)), to_doubles(start));
    for (auto const part : {&ops::OptimizerState<R>::first, &ops::OptimizerState<R>::second}) {
      if (fused_state.*part) {
        EXPECT_EQ(to_host(*(fused_state.*part)), to_host(*(apart_state.*part)));
      }
    }
  }
};
TYPED_TEST_SUITE(EmbeddingUpdateOpsTest, Runtimes, RuntimeNames);

TYPED_TEST(EmbeddingUpdateOpsTest, gives_the_bits_of_gradients_and_update_rows) {
  for (std::int64_t const places : {60, 5000}) {
    for (auto const kind : ops::kernels::testing::kAllOptimizerKinds) {
      this->template expect_the_bits_of_update_rows<float>(kind, places);
      this->template expect_the_bits_of_update_rows<float16>(kind, places);
      this->template expect_the_bits_of_update_rows<bfloat16>(kind, places);
    }
  }
}

TYPED_TEST(EmbeddingUpdateOpsTest, no_ids_move_nothing) {
  ops::StepCounter const step(this->device());
  auto const table = this->put(Floats{1, 2}, {2, 1});
  for (auto const& shape : {Shape{0}, Shape{3, 0}}) {
    Bags<TypeParam> const bags(this->template any<std::int64_t>(shape));
    ops::update_embedding({.kind = OptimizerKind::sgd, .learning_rate = 1.0F},
                          step,
                          table,
                          {},
                          bags,
                          ops::deduplicate(bags, 2),
                          Pooling::sum,
                          this->any({shape[0], 1}));
  }
  EXPECT_EQ(to_host(table), (Floats{1, 2}));
}

TYPED_TEST(EmbeddingUpdateOpsTest, refuses_shapes_and_state_that_do_not_fit) {
  ops::StepCounter const step(this->device());
  Bags<TypeParam> const bags(this->template any<std::int64_t>({4}));
  auto const unique = ops::deduplicate(bags, 3);
  auto const update =
      [&](auto const& table, OptimizerKind kind, auto const& state, auto const& dy) {
        return [=, &step] {
          ops::update_embedding({.kind = kind, .learning_rate = 1.0F},
                                step,
                                table,
                                state,
                                bags,
                                unique,
                                Pooling::sum,
                                dy);
        };
      };
  auto const state_of = [&](OptimizerKind kind) {
    return ops::make_state(this->device(), kind, {3, 2});
  };
  auto const kSgd = OptimizerKind::sgd;
  auto const none = state_of(kSgd);
  expect_refused(update(this->any({6}), kSgd, none, this->any({4, 2})), "update_embedding", "[6]");
  expect_refused(
      update(this->any({3, 2}), kSgd, none, this->any({4, 3})), "update_embedding", "[4, 3]");
  expect_refused(
      update(this->any({3, 2}), kSgd, none, this->any({5, 2})), "update_embedding", "[5, 2]");
  expect_refused(update(this->any({3, 2}), OptimizerKind::adam, none, this->any({4, 2})),
                 "update_embedding",
                 "state");
  expect_refused(update(this->any({3, 2}),
                        OptimizerKind::rowwise_adagrad,
                        state_of(OptimizerKind::adagrad),
                        this->any({4, 2})),
                 "update_embedding",
                 "[3, 2]");
}

}  // namespace
}  // namespace msstream::testing
