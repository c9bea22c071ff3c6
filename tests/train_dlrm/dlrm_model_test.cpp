// SPDX-License-Identifier: Apache-2.0
#include "dlrm_model.hpp"

#include "ops/ops_fixture.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace train_dlrm {
namespace {

namespace testing = ms::testing;

/// Bags with offsets are those of a fixed hotness if each has as many ids.
TEST(DlrmModel, learns_the_same_from_bags_with_offsets_as_from_those_of_a_fixed_hotness) {
  constexpr std::int64_t kRows = 8;
  constexpr std::int64_t kUnused = 5;  // ids behind the last bag, as in a captured step
  DlrmShape shape{.max_rows = 40,
                  .max_hotness = 4,
                  .dimension = 4,
                  .bottom = {8},
                  .top = {8, 1},
                  .cross_rank = 4};
  ms::Device<ms::Host> const device;
  testing::Random random;
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> offsets{0};
  for (std::size_t field = 0; field < kFields; ++field) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < shape.hotness(field); ++i) {
        ids.push_back(random.integer(0, shape.rows(field) - 1));
      }
      offsets.push_back(static_cast<std::int64_t>(ids.size()));
    }
  }
  auto const put = [&](auto const& values, ms::Shape const& to) {
    return ms::to_device(device, values, to);
  };
  DeviceBatch<ms::Host> const fixed{put(random.reals(kRows * kNumbers), {kRows, kNumbers}),
                                    {put(ids, {static_cast<std::int64_t>(ids.size())})},
                                    put(std::vector<float>{0, 1, 1, 0, 0, 1, 0, 0}, {kRows, 1})};
  auto more = ids;
  more.resize(ids.size() + kUnused, 3);
  DeviceBatch<ms::Host> const jagged{fixed.numbers,
                                     {put(more, {static_cast<std::int64_t>(more.size())}),
                                      put(offsets, {static_cast<std::int64_t>(offsets.size())})},
                                     fixed.labels};
  auto const losses_on = [&](DeviceBatch<ms::Host> const& batch, bool is_multi_hot) {
    auto of_model = shape;
    of_model.is_multi_hot = is_multi_hot;
    DlrmModel<ms::Host, float> const model(device, of_model);
    ms::StreamPool<ms::Host> pool(device, {.groups = 3});
    ms::Optimizer<ms::Host> optimizer(
        device, {.kind = ms::ops::OptimizerKind::rowwise_adagrad, .learning_rate = 0.1F});
    optimizer.add(model.parameters());
    ms::GradientTape<ms::Host> tape(device);
    std::vector<float> losses;
    for (int step = 0; step < 4; ++step) {
      auto const loss = model.loss(tape, pool, batch);
      tape.backward(loss);
      optimizer.step(tape);
      tape.clear();
      losses.push_back(ms::to_host(loss).front());
    }
    return losses;
  };
  auto const expected = losses_on(fixed, false);
  EXPECT_NE(expected.front(), expected.back()) << "nothing moves";
  EXPECT_EQ(losses_on(jagged, true), expected) << "MSSTREAM_TEST_SEED=" << random.seed();
}

}  // namespace
}  // namespace train_dlrm
