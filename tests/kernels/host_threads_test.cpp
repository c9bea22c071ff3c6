// SPDX-License-Identifier: Apache-2.0
#include "../../kernels/parallel_rows_host.hpp"
#include "kernels/kernel_fixture.hpp"

#include <msstream/ops/kernels/elementwise.hpp>
#include <msstream/ops/kernels/embedding.hpp>
#include <msstream/ops/kernels/optimizer.hpp>
#include <msstream/runtime/work_queue.hpp>

#include <gtest/gtest.h>

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
