// SPDX-License-Identifier: Apache-2.0
// Tests that a training whose tables are rounded stochastically goes on from a checkpoint with the
// same bits.
#include "base/temporary_folder.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>

#include <cstdint>
#include <utility>

namespace msstream::testing {
namespace {

template <class R>
class TableRoundingCheckpoint : public OpsTest<R> {
 protected:
  struct Training {
    Training(Device<R> const& device, std::uint64_t seed)
        : parameters(device, {.seed = 3}),
          tape(device),
          table(parameters.template table<bfloat16>("table", {5, 33}, init::uniform(1.0F, 2.0F))),
          optimizer(
              device,
              {.kind = ops::OptimizerKind::adam, .learning_rate = 0.001F},
              {.table_rounding = OptimizerOptions::Rounding::stochastic, .rounding_seed = seed}) {
      optimizer.add(parameters);
    }
    void train(Tensor<std::int64_t, R> const& ids, int steps) {
      for (int step = 0; step < steps; ++step) {
        tape.clear();
        tape.backward(ops::sum(tape, ops::embedding_lookup(tape, table, ops::Bags<R>(ids), {})));
        optimizer.step(tape);
      }
    }

    Parameters<R> parameters;
    GradientTape<R> tape;
    Tensor<bfloat16, R> table;
    Optimizer<R> optimizer;
  };
};
TYPED_TEST_SUITE(TableRoundingCheckpoint, PlainRuntimes, RuntimeNames);

TYPED_TEST(TableRoundingCheckpoint, a_resumed_run_has_the_same_random_bits) {
  using Training = typename TestFixture::Training;
  TemporaryFolder const folder;
  auto const path = folder / "model.safetensors";
  auto const ids = this->put(Integers{0, 1, 1, 4}, {4, 1});
  Training whole(this->device(), 7);
  whole.train(ids, 3);
  checkpoint::save(path, checkpoint::Tensors(whole.parameters, whole.optimizer));
  whole.train(ids, 3);
  auto const expected = to_doubles(to_host(whole.table));

  auto const resumed = [&](std::uint64_t seed) {
    Training second(this->device(), seed);
    checkpoint::load(path, checkpoint::Tensors(second.parameters, second.optimizer));
    second.train(ids, 3);
    return to_doubles(to_host(second.table));
  };
  EXPECT_EQ(resumed(7), expected);
  EXPECT_NE(resumed(8), expected) << "the seed is the program's";
}

}  // namespace
}  // namespace msstream::testing
