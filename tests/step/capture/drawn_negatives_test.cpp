// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable/random.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

/// Tests a matrix factorization whose negative items are drawn on the device in each step.
namespace msstream::testing {
namespace {

constexpr std::int64_t kDrawnUsers = 61;
constexpr std::int64_t kDrawnItems = 200;
constexpr std::int64_t kNegativesOfUser = 3;

/// Everything that a run can be resumed from.
struct FactorizationState {
  Floats users;
  Floats items;
  Integers random;
};

template <class R>
class Factorization {
 public:
  explicit Factorization(int groups)
      : pool_(device_, {.groups = groups}),
        groups_(groups),
        tape_(device_),
        random_(device_, {.seed = 17}),
        users_(ops::random_normal(device_, {kDrawnUsers, 4}, RandomKey(1, "users"))),
        items_(ops::random_normal(device_, {kDrawnItems, 4}, RandomKey(1, "items"))),
        optimizer_(device_, {.kind = ops::OptimizerKind::sgd, .learning_rate = 16.0F}),
        user_ids_(arange(device_, kDrawnUsers)),
        negatives_(zeros<std::int64_t>(device_, {kDrawnUsers, kNegativesOfUser})) {
    optimizer_.add_table("users", users_);
    optimizer_.add_table("items", items_);
  }

  void step() {
    random_.advance();
    tape_.clear();
    for (int part = 0; part < groups_; ++part) {
      StreamScope const scope(pool_[part], {.include_grad = true});
      auto const first = kDrawnUsers * part / groups_;
      auto const last = kDrawnUsers * (part + 1) / groups_;
      copy(negatives_.rows(first, last),
           ops::random_integers(tape_,
                                random_,
                                "negatives",
                                {last - first, kNegativesOfUser},
                                0,
                                kDrawnItems,
                                {.first_sample = first}));
    }
    auto const users = ops::gather_rows(tape_, users_, user_ids_).reshaped({kDrawnUsers, 1, 4});
    // The item of a user has the user's number.
    auto const positives = ops::gather_rows(tape_, items_, user_ids_).reshaped({kDrawnUsers, 1, 4});
    auto const negatives = ops::gather_rows(tape_, items_, negatives_);
    auto const scores = [&](auto const& items) {
      return ops::sum(tape_, ops::multiply(tape_, items, users), 2);
    };
    loss_ = ops::bpr_loss(tape_, scores(positives), scores(negatives));
    tape_.backward(*loss_);
    optimizer_.step(tape_);
  }
  /// Appends the loss and the negatives of each of some steps. If `captured`, all but the first are
  /// replays of one captured step.
  void run(int steps, bool captured, Floats& losses, std::vector<Integers>& negatives) {
    std::optional<CapturedStep<R>> replayed;
    for (int i = 0; i < steps; ++i) {
      if (captured && i > 0) {
        if (!replayed) {
          replayed.emplace(device_, [this] { step(); });
        }
        replayed->replay();
      } else {
        step();
      }
      losses.push_back(to_host(*loss_)[0]);
      negatives.push_back(to_host(negatives_));
    }
  }
  [[nodiscard]] FactorizationState save() const {
    return {to_host(users_), to_host(items_), to_host(random_.tensor())};
  }
  void load(FactorizationState const& state) {
    copy(users_, to_device(device_, state.users, users_.shape()));
    copy(items_, to_device(device_, state.items, items_.shape()));
    random_.visit_state([&](std::string const&, Tensor<std::int64_t, R> const& tensor) {
      copy(tensor, to_device(device_, state.random, tensor.shape()));
    });
  }

 private:
  Device<R> device_;
  StreamPool<R> pool_;
  int groups_;
  GradientTape<R> tape_;
  RandomGenerator<R> random_;
  Tensor<float, R> users_;
  Tensor<float, R> items_;
  Optimizer<R> optimizer_;
  Tensor<std::int64_t, R> user_ids_;
  Tensor<std::int64_t, R> negatives_;
  std::optional<Tensor<float, R>> loss_;
};

template <class R>
class DrawnNegativesTest : public GradientTest<R> {};
TYPED_TEST_SUITE(DrawnNegativesTest, Runtimes, RuntimeNames);

TYPED_TEST(DrawnNegativesTest, give_equal_bits_in_groups_in_replays_and_resumed) {
  constexpr int kSteps = 6;
  Floats expected;
  std::vector<Integers> expected_negatives;
  Factorization<TypeParam>(1).run(kSteps, false, expected, expected_negatives);
  for (std::size_t i = 1; i < expected_negatives.size(); ++i) {
    EXPECT_NE(expected_negatives[i], expected_negatives[i - 1]) << "step " << i;
  }
  EXPECT_LT(expected.back(), expected.front());
  for (int const groups : {1, 2, 3, 4}) {
    for (bool const captured : {false, true}) {
      SCOPED_TRACE(fmt::format("{} groups, captured {}", groups, captured));
      Floats losses;
      std::vector<Integers> negatives;
      Factorization<TypeParam>(groups).run(kSteps, captured, losses, negatives);
      EXPECT_EQ(losses, expected);
      EXPECT_EQ(negatives, expected_negatives);

      losses.clear();
      negatives.clear();
      Factorization<TypeParam> interrupted(groups);
      interrupted.run(3, captured, losses, negatives);
      Factorization<TypeParam> resumed(5 - groups);
      resumed.load(interrupted.save());
      resumed.run(kSteps - 3, captured, losses, negatives);
      EXPECT_EQ(losses, expected);
      EXPECT_EQ(negatives, expected_negatives);
    }
  }
}

TYPED_TEST(DrawnNegativesTest, have_the_numbers_of_the_functions_without_a_tape) {
  RandomGenerator const random(this->device(), {.seed = 2});
  GradientTape tape(this->device());
  EXPECT_EQ(to_host(ops::random_integers(tape, random, "a", {5, 3}, 0, 99)),
            to_host(ops::random_integers(random, "a", {5, 3}, 0, 99)));
  EXPECT_EQ(to_host(ops::random_uniform(tape, random, "b", {5, 3})),
            to_host(ops::random_uniform(no_tape, random, "b", {5, 3})));
  EXPECT_EQ(to_host(ops::random_normal(tape, random, "c", {5, 3}, 1.0F, 2.0F)),
            to_host(ops::random_normal(random, "c", {5, 3}, 1.0F, 2.0F)));
}

TYPED_TEST(DrawnNegativesTest, that_repeat_are_refused) {
  RandomGenerator random(this->device());
  GradientTape tape(this->device());
  auto const draw = [&](auto& on, char const* name, std::int64_t first = 0) {
    return ops::random_integers(on, random, name, {6, 2}, 0, 9, {.first_sample = first});
  };
  (void)draw(tape, "a");
  (void)draw(tape, "b");
  (void)draw(tape, "a", 6);  // the other part of the batch
  (void)draw(no_tape, "a");
  {
    typename GradientTape<TypeParam>::Pause const pause(tape);
    (void)draw(tape, "a");
  }
  expect_refused([&] { (void)draw(tape, "a", 5); },
                 "random_integers: 'a' draws twice",
                 "[5, 11)",
                 "advance()");
  (void)draw(tape, "a");
  expect_refused([&] { (void)ops::random_uniform(tape, random, "a", {1}); }, "random_uniform: 'a'");
  // A dropout of the name would draw the same words.
  (void)draw(tape, "a");
  auto const x = this->put(Floats(12, 1.0F), {6, 2});
  expect_refused([&] { (void)ops::dropout(tape, x, {}, random, "a"); }, "dropout: 'a'");
  (void)draw(tape, "a");
  random.advance();
  (void)draw(tape, "a");
  // A draw that was refused for its arguments may be repeated.
  random.advance();
  expect_refused([&] { (void)ops::random_integers(tape, random, "a", {6}, 4, 3); }, "low 4");
  (void)draw(tape, "a");
}

TYPED_TEST(DrawnNegativesTest, of_replays_without_advance_are_refused) {
  RandomGenerator random(this->device());
  auto const x = this->put(Floats(6, 1.0F), {6});
  CapturedStep<TypeParam> drawing(this->device(), [&] {
    GradientTape tape(this->device());
    auto const noise = ops::random_normal(tape, random, "noise", {6});
    tape.backward(ops::sum(tape, ops::multiply(tape, x, noise)));
  });
  drawing.replay();
  expect_refused([&] { drawing.replay(); }, "replay: 'noise'", "[0, 6)");
  drawing.replay();
  random.advance();
  drawing.replay();
}

TYPED_TEST(DrawnNegativesTest, of_a_step_that_failed_may_be_drawn_again) {
  RandomGenerator random(this->device());
  EXPECT_THROW(
      {
        GradientTape tape(this->device());
        (void)ops::random_normal(tape, random, "a", {6});
        throw std::runtime_error("the step fails");
      },
      std::runtime_error);
  GradientTape tape(this->device());
  auto const x = this->put(Floats(6, 1.0F), {6});
  auto const step = [&] {
    auto const noise = ops::random_normal(tape, random, "a", {6});
    tape.backward(ops::sum(tape, ops::multiply(tape, x, noise)));
  };
  (void)ops::random_normal(tape, random, "a", {6});
  tape.clear();
  step();
  tape.clear();
  expect_refused(step, "'a'", "twice");
}

}  // namespace
}  // namespace msstream::testing
