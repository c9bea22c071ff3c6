// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "comm/ranks.hpp"
#include "step/parallel/sharded_bags.hpp"

#include <msstream/checkpoint/sharded.hpp>
#include <msstream/msstream.hpp>

#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using checkpoint::Tensors;
using ops::OptimizerKind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::int64_t kSavedSamples = 6;

[[nodiscard]] std::vector<TableSpec> saved_specs() {
  return {{.name = "users/a", .rows = 17, .width = 4, .hotness = 2},
          {.name = "items", .rows = 8, .width = 3, .dtype = DType::float16},
          {.name = "shops", .rows = 5, .width = 2}};
}

/// A model of tables in parts and a dense parameter, with an optimizer.
template <Runtime R>
struct ShardedModel {
  ShardedModel(Rank<R> const& rank,
               std::vector<Sharding> const& shardings,
               OptimizerKind kind,
               std::uint64_t seed)
      : device(rank.device),
        part(uneven_parts(kSavedSamples, rank.size())[static_cast<std::size_t>(rank.rank())]),
        tables(saved_specs(),
               rank.communicator,
               {.most_samples = kSavedSamples, .seed = seed, .reduction = comm::Reduction::sum},
               plan_of(saved_specs(), shardings, rank.size())),
        parameters(rank.device, {.seed = seed}),
        weight(parameters.dense("weight", {9}, init::normal(0, 1))),
        optimizer(
            rank.device, {.kind = kind, .learning_rate = 0.1F}, {.may_lack_gradient = {"weight"}}),
        tape(rank.device),
        bags(rank.device, saved_specs(), kSavedSamples, part, false) {
    optimizer.add(parameters);
    tables.add_to(optimizer);
  }

  /// Trains for a step, and returns the pooled rows before.
  std::vector<float> step(int number) {
    bags.put(random_bags(saved_specs(), kSavedSamples, false, static_cast<std::uint64_t>(number)));
    auto const pooled = tables.lookup(tape, bags.bags());
    auto elements = to_host(pooled);
    auto const sums = ops::sum(tape, pooled, 0);
    tape.without_gradient(weight);
    tape.backward(ops::sum(tape, ops::multiply(tape, sums, weight), 0));
    optimizer.step(tape);
    tape.clear();
    return elements;
  }
  [[nodiscard]] Tensors tensors() const { return Tensors(parameters, optimizer); }

  Device<R> device;
  BatchPart part;
  ShardedTables<R> tables;
  Parameters<R> parameters;
  Tensor<float, R> weight;
  Optimizer<R> optimizer;
  GradientTape<R> tape;
  BagsOnDevice<R> bags;
};

template <class R>
class ShardedCheckpoint : public RanksTest<R> {
 protected:
  /// Runs `body(model)` on the ranks, and returns the pooled rows that it returns, of all samples.
  template <class Body>
  static std::vector<float> on_models(int ranks,
                                      std::vector<Sharding> const& shardings,
                                      OptimizerKind kind,
                                      std::uint64_t seed,
                                      Body const& body) {
    std::mutex mutex;
    std::map<std::int64_t, std::vector<float>> parts;
    on_ranks<R>(ranks, [&](Rank<R> const& rank) {
      ShardedModel<R> model(rank, shardings, kind, seed);
      auto pooled = body(model);
      std::lock_guard const guard(mutex);
      auto& to = parts[model.part.begin];
      to.insert(to.end(), pooled.begin(), pooled.end());
    });
    std::vector<float> all;
    for (auto const& [begin, pooled] : parts) {
      all.insert(all.end(), pooled.begin(), pooled.end());
    }
    return all;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.safetensors";
};
TYPED_TEST_SUITE(ShardedCheckpoint, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(ShardedCheckpoint, another_number_of_ranks_goes_on_by_another_plan) {
  using R = TypeParam;
  struct How {
    int ranks;
    std::vector<Sharding> shardings;
  };
  std::vector<How> const all{
      {1, {Sharding::table_wise}},
      {2, {Sharding::table_wise, Sharding::replicated, Sharding::column_wise}},
      {3, {Sharding::column_wise}},
      {4, {Sharding::replicated, Sharding::table_wise}},
      {3, {Sharding::row_wise}}};
  for (auto const kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
    for (auto const& saved : all) {
      auto const first = TestFixture::on_models(
          saved.ranks, saved.shardings, kind, 5, [&](ShardedModel<R>& model) {
            (void)model.step(0);
            (void)model.step(1);
            checkpoint::save_sharded(this->path_, model.tables, model.tensors(), {.step = 2});
            (void)model.step(2);
            return model.step(3);
          });
      for (auto const& loaded : all) {
        SCOPED_TRACE(std::to_string(saved.ranks) + " ranks, loaded by " +
                     std::to_string(loaded.ranks));
        auto const second = TestFixture::on_models(
            loaded.ranks, loaded.shardings, kind, 6, [&](ShardedModel<R>& model) {
              auto const found =
                  checkpoint::load_sharded(this->path_, model.tables, model.tensors());
              EXPECT_EQ(found.step, 2);
              EXPECT_EQ(model.optimizer.status().steps, 2);
              (void)model.step(2);
              return model.step(3);
            });
        ASSERT_EQ(second.size(), first.size());
        // Sums of the rows of several ranks are rounded in another order, and so are gradients on
        // CUDA.
        bool const adds = &saved == &all.back() || &loaded == &all.back() || is_by_nccl<R>;
        for (std::size_t i = 0; i < first.size(); ++i) {
          ASSERT_NEAR(second[i], first[i], adds ? 1e-5 : 0);
        }
      }
    }
  }
}

TYPED_TEST(ShardedCheckpoint, the_file_is_that_of_whole_tables) {
  using R = TypeParam;
  auto const one = this->folder_.path() / "one.safetensors";
  // Without ranks: tables of Parameters, which are saved by save() and get a step of Adagrad.
  Device<R> const device;
  Parameters<R> parameters(device, {.seed = 5});
  for (auto const& spec : saved_specs()) {
    if (spec.dtype == DType::float16) {
      (void)parameters.template table<float16>(spec.name, {spec.rows, spec.width});
    } else {
      (void)parameters.table(spec.name, {spec.rows, spec.width});
    }
  }
  (void)parameters.dense("weight", {9}, init::normal(0, 1));
  Optimizer<R> optimizer(device, {.kind = OptimizerKind::rowwise_adagrad, .learning_rate = 0.1F});
  optimizer.add(parameters);
  checkpoint::save(one, Tensors(parameters, optimizer));
  checkpoint::SafetensorsFile const expected(one);
  (void)TestFixture::on_models(3,
                               {Sharding::row_wise, Sharding::table_wise, Sharding::replicated},
                               OptimizerKind::rowwise_adagrad,
                               5,
                               [&](ShardedModel<R>& model) {
                                 checkpoint::save_sharded(
                                     this->path_, model.tables, model.tensors());
                                 return std::vector<float>();
                               });
  checkpoint::SafetensorsFile const found(this->path_);
  EXPECT_EQ(found.tensors().size(), expected.tensors().size());
  for (auto const& [name, tensor] : expected.tensors()) {
    auto const& other = found.tensor(name);
    ASSERT_EQ(other.shape, tensor.shape) << name;
    ASSERT_EQ(other.type, tensor.type) << name;
    std::vector<std::byte> first(tensor.bytes);
    std::vector<std::byte> second(tensor.bytes);
    expected.read(tensor, 0, first);
    found.read(other, 0, second);
    EXPECT_EQ(second, first) << name;
  }
  checkpoint::load(this->path_, Tensors(parameters, optimizer));
}

TYPED_TEST(ShardedCheckpoint, one_number_a_row_of_columns_is_for_as_many_ranks) {
  using R = TypeParam;
  auto const run = [&](int ranks, bool loads, checkpoint::LoadOptions const& options) {
    return TestFixture::on_models(
        ranks,
        {Sharding::column_wise},
        OptimizerKind::rowwise_adagrad,
        5,
        [&](ShardedModel<R>& model) {
          if (loads) {
            checkpoint::load_sharded(this->path_, model.tables, model.tensors(), options);
          } else {
            (void)model.step(0);
            checkpoint::save_sharded(this->path_, model.tables, model.tensors());
          }
          (void)model.step(1);
          return model.step(2);
        });
  };
  auto const first = run(2, false, {});
  EXPECT_EQ(bits_of(run(2, true, {})), bits_of(first));
  if (most_ranks<R>() < 3) {
    GTEST_SKIP() << "the rest needs three devices";
  }
  EXPECT_THAT(message_of<comm::PeerLost>([&] { (void)run(3, true, {}); }),
              HasSubstr("optimizer/users/a/state0 (expected F32 [17, 3], found F32 [17, 2])"));
  (void)run(3, true, {.except = {"optimizer/*/state0"}});
}

TYPED_TEST(ShardedCheckpoint, what_does_not_fit_on_one_rank_is_told_on_all) {
  using R = TypeParam;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    ShardedModel<R> model(rank,
                          {Sharding::row_wise, Sharding::table_wise, Sharding::replicated},
                          OptimizerKind::adam,
                          5);
    auto const refused = [&](auto const& call) {
      std::string message = "no exception";
      try {
        call();
      } catch (std::exception const& error) {
        message = error.what();
      }
      comm::barrier(rank.communicator);
      rank.communicator.synchronize();
      return message;
    };
    auto const in_no_folder = this->folder_.path() / "none" / "model.safetensors";
    EXPECT_THAT(
        refused([&] { checkpoint::save_sharded(in_no_folder, model.tables, model.tensors()); }),
        HasSubstr(in_no_folder.string()));
    EXPECT_THAT(
        refused([&] { checkpoint::load_sharded(in_no_folder, model.tables, model.tensors()); }),
        HasSubstr(in_no_folder.string()));

    checkpoint::save_sharded(this->path_, model.tables, Tensors(model.parameters));
    // The table of items is on rank 1 alone.
    Tensors const without(model.parameters);
    EXPECT_THAT(refused([&] {
                  checkpoint::save_sharded(
                      this->path_,
                      model.tables,
                      rank.rank() == 0 ? model.tensors() : Tensors(model.parameters));
                }),
                HasSubstr("the ranks have 36 of the 68 elements of 'optimizer/users/a/state0'; "
                          "expected the optimizers of all ranks to have all parts"));
    auto changed = saved_specs();
    changed[1].rows = 9;
    ShardedTables<R> const others(changed, rank.communicator, {.most_samples = 2});
    checkpoint::save_sharded(this->path_, model.tables, without);
    EXPECT_THAT(refused([&] { checkpoint::load_sharded(this->path_, others, without); }),
                AllOf(HasSubstr("the checkpoint does not fit, and nothing was loaded: of another "
                                "shape or type: items (expected F16 [9, 3], found F16 [8, 3])"),
                      rank.rank() == 0 ? HasSubstr("rank 1") : HasSubstr("model.safetensors")));
    EXPECT_THAT(
        refused([&] { checkpoint::load_sharded(this->path_, model.tables, model.tensors()); }),
        HasSubstr("missing in the file: optimizer/"));
    auto const found = checkpoint::load_sharded(
        this->path_, model.tables, model.tensors(), {.allow_missing = true});
    EXPECT_THAT(found.missing,
                Contains(rank.rank() == 0 ? "optimizer/users/a/state0" : "optimizer/items/state1"));
    EXPECT_THAT(refused([&] {
                  checkpoint::load_sharded(
                      this->path_, model.tables, without, {.transposed = {"weight"}});
                }),
                HasSubstr("options with rename, transposed, rows or averages"));
  });
}

}  // namespace
}  // namespace msstream::testing
