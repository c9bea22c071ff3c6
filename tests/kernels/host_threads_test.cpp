// SPDX-License-Identifier: Apache-2.0
#include "../../kernels/parallel_rows_host.hpp"
#include "kernels/kernel_fixture.hpp"

#include <msstream/ops/kernels/elementwise.hpp>
#include <msstream/ops/kernels/embedding.hpp>
#include <msstream/ops/kernels/embedding_gradient.hpp>
#include <msstream/ops/kernels/embedding_tables.hpp>
#include <msstream/ops/kernels/embedding_update.hpp>
#include <msstream/ops/kernels/optimizer.hpp>
#include <msstream/ops/kernels/segment.hpp>
#include <msstream/runtime/work_queue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

/// That the CPU twins give the same bits whether one thread runs them or several.
namespace msstream::ops::kernels::testing {
namespace {

/// Runs work at once: on the calling thread alone, or with all threads of the process.
class Immediate final : public WorkQueue {
 public:
  explicit Immediate(bool alone) : alone_(alone) {}
  std::uint64_t enqueue(Closure closure) override {
    if (alone_) {
      // From within a range nothing goes to other threads.
      RangeTeam(1).run(2, 1, [&](std::int64_t begin, std::int64_t) {
        if (begin == 0) {
          closure();
        }
      });
    } else {
      closure();
    }
    return ++number_;
  }

 private:
  bool alone_;
  std::uint64_t number_ = 0;
};

class HostThreads : public ::testing::Test {
 protected:
  /// Calls `issue(stream, output)` on both; expects the same bits in `count` floats.
  template <class Issue>
  static void expect_same_bits(std::vector<float> const& before, Issue const& issue) {
    auto alone = before;
    auto shared = before;
    Immediate one(true);
    Immediate all(false);
    issue(HostStream(one), alone.data());
    issue(HostStream(all), shared.data());
    EXPECT_EQ(std::memcmp(alone.data(), shared.data(), alone.size() * sizeof(float)), 0);
    EXPECT_NE(std::memcmp(alone.data(), before.data(), alone.size() * sizeof(float)), 0);
  }
  static std::vector<float> poisoned(std::int64_t count) {
    std::vector<float> out(static_cast<std::size_t>(count));
    std::memset(out.data(), kPoisonByte, out.size() * sizeof(float));
    return out;
  }

  Random random;
};

TEST_F(HostThreads, Elementwise) {
  constexpr std::int64_t kCount = 300'001;
  auto const input = random.reals(kCount);
  auto const other = random.reals(kCount);
  auto const output = poisoned(kCount);
  expect_same_bits(output, [&](HostStream stream, float* out) {
    std::vector<float const*> const inputs{input.data(), other.data()};
    add(stream, inputs, out, kCount);
  });
  expect_same_bits(
      output, [&](HostStream stream, float* out) { sigmoid(stream, input.data(), out, kCount); });
  expect_same_bits(output, [&](HostStream stream, float* out) {
    bce_with_logits(stream, {input.data(), other.data(), out, nullptr, kCount});
  });
  expect_same_bits(poisoned(1), [&](HostStream stream, float* out) {
    std::vector<char> workspace(reduce_workspace_bytes(stream, kCount));
    reduce_sum(stream, input.data(), kCount, 0.5F, workspace.data(), out);
  });
}

TEST_F(HostThreads, ColumnsOfBlocks) {
  constexpr std::int64_t kRows = 5000;
  auto left = random.reals(kRows * 33);
  auto right = random.reals(kRows * 7);
  std::vector<ColumnBlock> const blocks{{left.data(), 33}, {nullptr, 2}, {right.data(), 7}};
  auto packed = poisoned(kRows * 42);
  expect_same_bits(
      packed, [&](HostStream stream, float* out) { concat_columns(stream, blocks, kRows, out); });
  packed = random.reals(kRows * 42);
  expect_same_bits(poisoned(kRows * 33), [&](HostStream stream, float* out) {
    split_columns(stream, packed.data(), std::vector<ColumnBlock>{{out, 33}, {nullptr, 9}}, kRows);
  });
}

/// Bags whose lengths fall as a power, so that a few hold most ids; some ids are bad.
struct PowerLawBags {
  static constexpr std::int64_t kBags = 3000;
  static constexpr std::int64_t kRows = 2000;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int64_t> ids;

  explicit PowerLawBags(Random& random) {
    for (std::int64_t bag = 0; bag < kBags; ++bag) {
      offsets.push_back(offsets.back() + (bag % 3) * 5000 / (bag + 1));
    }
    ids = random.integers(places(), -1, kRows);
  }
  [[nodiscard]] std::int64_t places() const { return offsets.back(); }
  [[nodiscard]] BagView view() const {
    return {.ids = ids.data(), .bags = kBags, .capacity = places(), .offsets = offsets.data()};
  }
};

TEST_F(HostThreads, Lookups) {
  constexpr std::int64_t kWidth = 33;
  PowerLawBags const bags(random);
  auto const table = random.reals(PowerLawBags::kRows * kWidth);
  std::uint64_t out_of_range = 0;
  auto const look_up = [&](Pooling pooling, std::int64_t rows) {
    expect_same_bits(poisoned(rows * kWidth), [&](HostStream stream, float* out) {
      embedding_lookup(stream,
                       {table.data(),
                        DType::float32,
                        PowerLawBags::kRows,
                        kWidth,
                        bags.view(),
                        pooling,
                        {&out_of_range, nullptr, 0},
                        out,
                        DType::float32});
    });
  };
  look_up(Pooling::mean, PowerLawBags::kBags);
  look_up(Pooling::max, PowerLawBags::kBags);
  look_up(Pooling::none, bags.places());
  auto const bad = std::count_if(bags.ids.begin(), bags.ids.end(), [](std::int64_t id) {
    return id < 0 || id >= PowerLawBags::kRows;
  });
  EXPECT_GT(bad, 0);
  EXPECT_EQ(out_of_range, static_cast<std::uint64_t>(3 * 2 * bad)) << "counted once a run";
}

TEST_F(HostThreads, RowGradientsAndFusedUpdates) {
  constexpr std::int64_t kWidth = 33;
  PowerLawBags const bags(random);
  auto const places = static_cast<std::size_t>(bags.places());
  std::vector<std::int64_t> unique(places);
  std::vector<std::int32_t> starts(places + 1);
  std::vector<std::int32_t> positions(places);
  std::vector<std::int32_t> ranks(places);
  std::int64_t count = 0;
  Immediate queue(false);
  HostStream const stream(queue);
  std::vector<std::uint64_t> workspace(deduplicate_workspace_bytes(stream, bags.places()) /
                                       sizeof(std::uint64_t));
  deduplicate(stream,
              {bags.view(),
               PowerLawBags::kRows,
               unique.data(),
               starts.data(),
               positions.data(),
               ranks.data(),
               &count,
               workspace.data()});
  auto const gradient = random.reals(PowerLawBags::kBags * kWidth);
  RowGradientArgs args{bags.view(),
                       PowerLawBags::kRows,
                       Pooling::mean,
                       starts.data(),
                       positions.data(),
                       ranks.data(),
                       &count,
                       gradient.data(),
                       DType::float32,
                       kWidth,
                       nullptr,
                       nullptr};
  expect_same_bits(poisoned(count * kWidth), [&](HostStream on, float* out) {
    args.row_gradients = out;
    embedding_row_gradients(on, args);
  });
  args.row_gradients = nullptr;
  OptimizerRule const rule{.kind = OptimizerKind::adagrad, .learning_rate = 0.1F};
  auto const weights = random.reals(PowerLawBags::kRows * kWidth);
  expect_same_bits(weights, [&](HostStream on, float* table) {
    std::vector<float> state(weights.size(), 0.1F);
    embedding_update(
        on, rule, nullptr, {args, unique.data(), table, DType::float32, state.data(), nullptr});
  });
}

TEST_F(HostThreads, LookupsInTables) {
  constexpr std::int64_t kBatch = 3000;
  constexpr std::int64_t kRows = 500;
  constexpr std::int64_t kPlaces = kBatch * (5 + 1);
  auto const wide = random.reals(kRows * 33);
  auto const narrow = random.reals(kRows * 8);
  auto const ids = random.integers(kPlaces, -1, kRows);
  auto const plan = plan_tables(
      {{.table = wide.data(), .rows = kRows, .width = 33, .hotness = 5, .pooling = Pooling::sqrtn},
       {.table = narrow.data(), .rows = kRows, .width = 8}});
  std::uint64_t out_of_range = 0;
  expect_same_bits(poisoned(kBatch * (33 + 8)), [&](HostStream stream, float* out) {
    embedding_tables_lookup(stream,
                            {.plan = &plan,
                             .tables = plan.tables.data(),
                             .table_of_tile = nullptr,
                             .batch = kBatch,
                             .ids = ids.data(),
                             .capacity = kPlaces,
                             .report = {&out_of_range, nullptr, 0},
                             .output = out});
  });
  auto const bad =
      std::count_if(ids.begin(), ids.end(), [](std::int64_t id) { return id < 0 || id >= kRows; });
  EXPECT_GT(bad, 0);
  EXPECT_EQ(out_of_range, static_cast<std::uint64_t>(2 * bad)) << "counted once a run";
}

TEST_F(HostThreads, Segments) {
  constexpr std::int64_t kWidth = 33;
  PowerLawBags const bags(random);
  auto const values = random.reals(bags.places() * kWidth);
  auto const gradient = random.reals(PowerLawBags::kBags * kWidth);
  std::vector<std::int64_t> segments;
  for (std::int64_t bag = 0; bag < PowerLawBags::kBags; ++bag) {
    segments.resize(static_cast<std::size_t>(bags.offsets[static_cast<std::size_t>(bag) + 1]), bag);
  }
  SegmentLayout layout{
      SegmentForm::offsets, PowerLawBags::kBags, bags.places(), bags.offsets.data()};
  for (auto form : {SegmentForm::offsets, SegmentForm::sorted_ids, SegmentForm::unsorted_ids}) {
    layout.form = form;
    layout.indices = form == SegmentForm::offsets ? bags.offsets.data() : segments.data();
    for (auto reduction : {SegmentReduction::mean, SegmentReduction::max, SegmentReduction::prod}) {
      std::vector<float> reduced(gradient.size());
      expect_same_bits(poisoned(PowerLawBags::kBags * kWidth), [&](HostStream stream, float* out) {
        SegmentArgs args{values.data(), kWidth, layout, reduction, 0.0F, true, out, nullptr};
        std::vector<char> workspace(segment_reduce_workspace_bytes(stream, args));
        args.workspace = workspace.data();
        segment_reduce(stream, args);
        std::copy_n(out, reduced.size(), reduced.begin());
      });
      expect_same_bits(poisoned(bags.places() * kWidth), [&](HostStream stream, float* out) {
        SegmentGradientArgs args{gradient.data(),
                                 values.data(),
                                 reduced.data(),
                                 kWidth,
                                 layout,
                                 reduction,
                                 out,
                                 nullptr};
        std::vector<char> workspace(segment_reduce_gradient_workspace_bytes(stream, args));
        args.workspace = workspace.data();
        segment_reduce_gradient(stream, args);
      });
    }
  }
}

TEST_F(HostThreads, Updates) {
  constexpr std::int64_t kRows = 9000;
  constexpr std::int64_t kWidth = 33;
  auto const gradients = random.reals(kRows * kWidth);
  auto const weights = random.reals(kRows * kWidth);
  std::vector<std::int64_t> ids(kRows);
  std::iota(ids.rbegin(), ids.rend(), 0);
  std::int64_t const count = kRows - 1;
  OptimizerRule const rule{.kind = OptimizerKind::adagrad, .learning_rate = 0.1F};
  expect_same_bits(weights, [&](HostStream stream, float* table) {
    std::vector<float> state(weights.size(), 0.1F);
    RowUpdate const update{table,
                           DType::float32,
                           kWidth,
                           ids.data(),
                           &count,
                           kRows,
                           gradients.data(),
                           state.data(),
                           nullptr};
    update_rows(stream, rule, nullptr, std::vector{update});
  });
  expect_same_bits(weights, [&](HostStream stream, float* weight) {
    std::vector<float> state(weights.size(), 0.1F);
    DenseUpdate const update{weight, gradients.data(), state.data(), nullptr, kRows * kWidth};
    update_dense(stream, rule, nullptr, std::vector{update});
  });
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
