// SPDX-License-Identifier: Apache-2.0
// Tests which values a model finds in the rows of a batch beyond those of the queries.
#include "serve/serve_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/tensor/copy.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

namespace msstream::testing {
namespace {

/// A model that keeps a copy of its last inputs.
template <Runtime R>
struct Witness {
  explicit Witness(Device<R> const& on)
      : ids(on, {16, 4}), dense(on, {16, 3}), answer(zeros<float, R>(on, {16, 1})) {
    answer.freeze();
  }

  [[nodiscard]] Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const {
    rows = inputs.rows();
    copy(ids.rows(0, rows), inputs.template get<std::int64_t>("keys"));
    copy(dense.rows(0, rows), inputs.template get<float>("dense"));
    return answer.rows(0, rows);
  }

  mutable std::int64_t rows = 0;
  Tensor<std::int64_t, R> ids;
  Tensor<float, R> dense;
  Tensor<float, R> answer;
};

template <class R>
class PaddingTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(PaddingTest, Runtimes, RuntimeNames);

/// Uses ids from 0 to 99, and values from 1 to 2. The bytes of such values are no valid ids, so a
/// value in a row of ids would be out of range.
TYPED_TEST(PaddingTest, rows_beyond_the_queries_have_values_of_their_own_field_or_zeros) {
  ServeWorld<TypeParam> const world;
  auto options = world.options();
  options.capture = false;
  options.outputs_per_row = 1;
  options.replicas = 1;
  options.depth = 1;
  for (bool const together : {false, true}) {
    options.max_batch_delay = std::chrono::nanoseconds(together ? 1 : 0);
    auto const witness = std::make_shared<Witness<TypeParam>>(world.device);
    serve::InferencePool pool(world.device, witness, options);
    Random random;
    SCOPED_TRACE(fmt::format("seed {}", random.seed()));
    for (int i = 0; i < 60; ++i) {
      auto const rows = random.integer(1, 16);
      auto const ids = random.integers(rows * 4, 0, 99);
      auto const dense = random.reals(rows * 3, 1.0F, 2.0F);
      static_cast<void>(pool.submit({.rows = rows, .values = {ids, dense}}).get());
      EXPECT_EQ(witness->rows, rows <= 4 ? 4 : 16);
      EXPECT_THAT(to_host(witness->ids.rows(0, witness->rows)),
                  ::testing::Each(::testing::AllOf(::testing::Ge(0), ::testing::Le(99))));
      EXPECT_THAT(to_host(witness->dense.rows(0, witness->rows)),
                  ::testing::Each(::testing::AnyOf(
                      0.0F, ::testing::AllOf(::testing::Ge(1.0F), ::testing::Le(2.0F)))));
      ASSERT_FALSE(this->HasFailure());
    }
  }
}

}  // namespace
}  // namespace msstream::testing
