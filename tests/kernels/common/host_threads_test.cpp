// SPDX-License-Identifier: Apache-2.0
#include "elementwise/elementwise.hpp"
#include "kernels/common/host_threads_fixture.hpp"
#include "optimizer/optimizer.hpp"
#include "segment/segment.hpp"

#include <algorithm>
#include <numeric>

namespace msstream::ops::kernels::testing {
namespace {

TEST_F(HostThreads, elementwise_results_have_the_same_bits) {
  constexpr std::int64_t kCount = 300'001;
  auto const input = random.reals(kCount);
  auto const other = random.reals(kCount);
  auto const output = poisoned(kCount);
  expect_same_bits(output, [&](HostStream stream, float* out) {
    std::vector<float const*> const inputs{input.data(), other.data()};
    add(stream, inputs, out, kCount);
  });
  expect_same_bits(
      output, [&](HostStream stream, float* out) { scale(stream, input.data(), 3, out, kCount); });
  expect_same_bits(output, [&](HostStream stream, float* out) {
    scale_by_scalar(stream, input.data(), other.data(), 3.0F, out, kCount);
  });
  expect_same_bits(output, [&](HostStream stream, float* out) {
    broadcast_scalar(stream, other.data(), 3.0F, out, kCount);
  });
  expect_same_bits(
      output, [&](HostStream stream, float* out) { sigmoid(stream, input.data(), out, kCount); });
  expect_same_bits(output, [&](HostStream stream, float* out) {
    sigmoid_gradient(stream, input.data(), other.data(), out, kCount);
  });
  expect_same_bits(output, [&](HostStream stream, float* out) {
    element_losses(stream, {input.data(), other.data(), out, nullptr, kCount});
  });
  expect_same_bits(poisoned(1), [&](HostStream stream, float* out) {
    std::vector<char> workspace(reduce_workspace_bytes(stream, kCount));
    reduce_sum(stream, input.data(), kCount, 0.5F, workspace.data(), out);
  });
}

TEST_F(HostThreads, columns_of_blocks_have_the_same_bits) {
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

TEST_F(HostThreads, segments_have_the_same_bits) {
  // The case of wide rows has enough work to share among threads in segments without positions. The
  // case of narrow rows has so many positions that counting them is worth sharing.
  for (bool const is_wide : {true, false}) {
    std::int64_t const width = is_wide ? 99 : 1;
    PowerLawBags const bags(random, is_wide ? 2000 : PowerLawBags::kWorthCounting);
    auto const values = random.reals(bags.places() * width);
    auto const gradient = random.reals(PowerLawBags::kBags * width);
    std::vector<std::int64_t> segments;
    for (std::int64_t bag = 0; bag < PowerLawBags::kBags; ++bag) {
      segments.resize(static_cast<std::size_t>(bags.offsets[static_cast<std::size_t>(bag) + 1]),
                      bag);
    }
    SegmentLayout layout{
        SegmentForm::offsets, PowerLawBags::kBags, bags.places(), bags.offsets.data()};
    for (auto form : {SegmentForm::offsets, SegmentForm::sorted_ids, SegmentForm::unsorted_ids}) {
      layout.form = form;
      layout.indices = form == SegmentForm::offsets ? bags.offsets.data() : segments.data();
      for (auto reduction :
           {SegmentReduction::mean, SegmentReduction::max, SegmentReduction::prod}) {
        std::vector<float> reduced(gradient.size());
        expect_same_bits(poisoned(PowerLawBags::kBags * width), [&](HostStream stream, float* out) {
          SegmentArgs args{values.data(), width, layout, reduction, 0.0F, true, out, nullptr};
          std::vector<char> workspace(segment_reduce_workspace_bytes(stream, args));
          args.workspace = workspace.data();
          segment_reduce(stream, args);
          std::copy_n(out, reduced.size(), reduced.begin());
        });
        expect_same_bits(poisoned(bags.places() * width), [&](HostStream stream, float* out) {
          SegmentGradientArgs args{gradient.data(),
                                   values.data(),
                                   reduced.data(),
                                   width,
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
}

TEST_F(HostThreads, updates_have_the_same_bits) {
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
                           {},
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
