// SPDX-License-Identifier: Apache-2.0
#include "dlrm_model.hpp"
#include "dlrm_tables.hpp"
#include "ops/ops_fixture.hpp"
#include "training/step_training.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace train_dlrm {
namespace {

namespace testing = ms::testing;
using R = ms::Host;
using Model = DlrmModel<R, ms::float16>;

constexpr std::int64_t kRows = 8;
constexpr int kSteps = 6;

/// Trains a DLRM in float16 on two batches in turn. Its loss scale is so large at first that the
/// first two steps overflow.
class DlrmLossScale : public ::testing::Test {
 protected:
  using Floats = std::vector<float>;
  struct Result {
    Floats losses;
    std::vector<std::vector<Floats>> tables;  ///< before the first step, and after each
    std::int64_t skipped;
  };
  struct HostBatch {
    Floats numbers;
    std::vector<std::int64_t> ids;
    Floats labels;
  };

  DlrmShape shape{.max_rows = 40,
                  .max_hotness = 2,
                  .dimension = 4,
                  .bottom = {8},
                  .top = {8, 1},
                  .cross_rank = 4,
                  .precision = ms::Precision::fp16};
  testing::Random random;
  std::array<HostBatch, 2> batches{drawn(), drawn()};

  [[nodiscard]] HostBatch drawn() {
    HostBatch batch{random.reals(kRows * kNumbers), {}, random.reals(kRows, 0.0F, 1.0F)};
    for (std::size_t field = 0; field < kFields; ++field) {
      for (std::int64_t i = 0; i < kRows * shape.hotness(field); ++i) {
        batch.ids.push_back(random.integer(0, shape.rows(field) - 1));
      }
    }
    return batch;
  }
  [[nodiscard]] static DeviceBatch<R> put(ms::Device<R> const& device, HostBatch const& batch) {
    auto const count = static_cast<std::int64_t>(batch.ids.size());
    return {ms::to_device(device, batch.numbers, {kRows, kNumbers}),
            {ms::to_device(device, batch.ids, {count})},
            ms::to_device(device, batch.labels, {kRows, 1})};
  }
  [[nodiscard]] static std::vector<Floats> tables_of(Model const& model) {
    std::vector<Floats> tables;
    if (model.in_parts()) {
      model.in_parts()->tables().for_each_part([&](auto const&, auto const& part) {
        tables.push_back(ms::to_host(ms::ops::cast<float>(part)));
      });
    }
    return tables;
  }

  /// Trains with tables in parts, on one rank, or with whole tables.
  [[nodiscard]] Result train(std::optional<ms::training::Lookahead> in_parts, bool captured) {
    auto const build = [&](ms::Device<R> const& device) {
      auto inputs = put(device, batches[0]);
      std::optional<ms::training::LookupsInParts<R>> lookups;
      if (in_parts) {
        std::vector<std::int64_t> most_ids;
        for (std::size_t field = 0; field < kFields; ++field) {
          most_ids.push_back(shape.hotness(field));
        }
        lookups.emplace(
            ms::ShardedTables<R>(table_specs(shape, most_ids),
                                 ms::comm::Communicator<R>(device, {}, {.name = "tables"}),
                                 {.most_samples = kRows, .seed = shape.seed}),
            *in_parts);
        if (lookups->looks_ahead()) {
          inputs.next_fields = put(device, batches[1]).fields;
        }
      }
      return std::pair(Model(device, shape, std::move(lookups)), std::move(inputs));
    };
    ms::training::StepTrainingOf<R, decltype(build)> training(
        {.groups = 3,
         .captured = captured,
         .loss_scale = ms::LossScaleOptions{.initial = 0x1p40F, .backoff = 0x1p-14F}},
        {.kind = ms::ops::OptimizerKind::rowwise_adagrad, .learning_rate = 0.1F},
        build);
    Result result{{}, {tables_of(training.model())}, 0};
    for (std::size_t step = 0; step < kSteps; ++step) {
      auto const& to = training.inputs();
      auto const now = put(training.device(), batches[step % 2]);
      ms::copy(to.numbers, now.numbers);
      ms::copy(to.labels, now.labels);
      ms::copy(to.fields.ids, now.fields.ids);
      if (to.next_fields) {
        ms::copy(to.next_fields->ids, put(training.device(), batches[(step + 1) % 2]).fields.ids);
      }
      training.step();
      result.losses.push_back(ms::to_host(training.loss()).front());
      result.tables.push_back(tables_of(training.model()));
    }
    result.skipped = training.optimizer().status().skipped;
    return result;
  }
};

TEST_F(DlrmLossScale, leaves_tables_in_parts_alone_in_a_step_that_overflows) {
  auto const whole = train(std::nullopt, false);
  ASSERT_EQ(whole.skipped, 2);
  for (auto const lookahead : {ms::training::Lookahead::none, ms::training::Lookahead::rows}) {
    for (bool const captured : {false, true}) {
      auto const found = train(lookahead, captured);
      EXPECT_EQ(found.skipped, 2);
      ASSERT_EQ(found.tables[0].size(), kFields);
      EXPECT_EQ(found.tables[1], found.tables[0]);
      EXPECT_EQ(found.tables[2], found.tables[0]);
      EXPECT_NE(found.tables[3], found.tables[2]);
      // The scale divides the gradients of tables in parts as it does those of whole ones.
      EXPECT_EQ(found.losses, whole.losses) << "MSSTREAM_TEST_SEED=" << random.seed();
    }
  }
}

}  // namespace
}  // namespace train_dlrm
