// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"
#include "ple_branches.hpp"
#include "ple_grouped.hpp"
#include "step/model_losses.hpp"

#include <msstream/memory/device.hpp>

#include <cstdint>

namespace msstream::testing {
namespace {

using train_ple::DeviceBatch;
using train_ple::PleBranches;
using train_ple::PleGrouped;
using train_ple::PleShape;

constexpr std::int64_t kBatch = 24;
constexpr std::int64_t kHotness = 2;

template <class R>
class PleModelTest : public OpsTest<R> {
 protected:
  PleShape shape{.table_rows = {50, 7, 300, 20},
                 .embedding_dim = 4,
                 .continuous = 3,
                 .tasks = 2,
                 .levels = 3,
                 .experts = 2,
                 .expert_hidden = 12,
                 .expert_outputs = 8,
                 .tower_hidden = 5,
                 .seed = 9};
  Integers keys = this->random.integers(4 * kBatch * kHotness, -1'000'000, 1'000'000);
  Floats continuous = this->random.reals(kBatch * 3);
  Floats labels = this->random.reals(2 * kBatch, 0.0F, 1.0F);

  [[nodiscard]] DeviceBatch<R> batch() {
    auto floats = continuous;
    floats.insert(floats.end(), labels.begin(), labels.end());
    auto const count = static_cast<std::int64_t>(floats.size());
    return training::click_batch<R>(this->put(keys, {4, kBatch, kHotness}),
                                    this->put(floats, {count}),
                                    {.continuous = 3, .tasks = 2});
  }

  template <class Model>
  Floats losses(int steps, StepsIssued const& issued = {}) {
    Device<R> const& device = this->device();
    return model_losses(device,
                        Model(device, shape),
                        batch(),
                        {.kind = ops::OptimizerKind::adagrad, .learning_rate = 0.02F},
                        steps,
                        issued);
  }
};
TYPED_TEST_SUITE(PleModelTest, Runtimes, RuntimeNames);

TYPED_TEST(PleModelTest, both_forms_are_the_same_mathematics) {
  auto const grouped = this->template losses<PleGrouped<TypeParam>>(5);
  expect_near(grouped, to_doubles(this->template losses<PleBranches<TypeParam>>(5)), 1e-4);
}

TYPED_TEST(PleModelTest, learns_a_batch_by_heart) {
  auto const losses = this->template losses<PleGrouped<TypeParam>>(60);
  EXPECT_LT(losses.back(), 0.95F * losses.front());
}

TYPED_TEST(PleModelTest, losses_have_the_same_bits_however_a_step_is_issued) {
  expect_same_bits_however_issued<TypeParam>([&](StepsIssued const& issued) {
    return this->template losses<PleBranches<TypeParam>>(5, issued);
  });
  expect_same_bits_however_issued<TypeParam>([&](StepsIssued const& issued) {
    return this->template losses<PleGrouped<TypeParam>>(5, issued);
  });
}

}  // namespace
}  // namespace msstream::testing
