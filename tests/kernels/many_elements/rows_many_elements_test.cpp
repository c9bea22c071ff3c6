// SPDX-License-Identifier: Apache-2.0
#include "embedding/gather.hpp"
#include "kernels/many_elements/many_elements_fixture.hpp"
#include "segment/segment.hpp"

#include <fmt/core.h>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class RowsOfManyElementsTest : public ManyElements<Stream> {};
TYPED_TEST_SUITE(RowsOfManyElementsTest, StreamKinds, StreamKindName);

// The table of the test has 4.3 GB in half precision.
TYPED_TEST(RowsOfManyElementsTest, rows_gathered_and_scattered) {
  using Half = std::uint16_t;
  constexpr std::int64_t kRows = (std::int64_t{1} << 11) + 1;
  constexpr std::int64_t kWidth = std::int64_t{1} << 20;
  static_assert((kRows - 1) * kWidth == std::int64_t{1} << 31);
  constexpr std::int64_t kRowBytes = kWidth * 2;
  auto const rows = this->template many<Half>(kRows * kWidth);
  if (!rows) {
    return;
  }
  for (auto const& [row, value] :
       {std::pair<std::int64_t, Half>{0, 1}, {kRows - 3, 2}, {kRows - 2, 3}, {kRows - 1, 4}}) {
    this->set_row(*rows, row, kWidth, value);
  }
  auto const gather = [&](std::int64_t row_bytes, Integers const& ids) {
    auto const device_ids = this->upload(ids);
    auto const output = this->template poisoned<Half>(std::ssize(ids) * row_bytes / 2);
    this->replay([&](TypeParam stream) {
      gather_rows(stream,
                  {rows->data(),
                   kRows * kRowBytes / row_bytes,
                   row_bytes,
                   device_ids.data(),
                   std::ssize(ids),
                   nullptr,
                   output.data()});
    });
    return output;
  };
  this->expect_rows(gather(kRowBytes, {kRows - 1, 0, -1}), kWidth, {4, 1, 0});
  // With rows of one element, row numbers need more than 31 bits.
  constexpr std::int64_t kLast = (kRows - 1) * kWidth;
  this->expect_rows(gather(2, {kLast, kLast - 1, 0, kLast + kWidth}), 1, {4, 3, 1, 0});

  auto const targets = [&](auto const& ids, auto const& memory, std::int64_t row_count) {
    return RowTargets{
        ids.data(), static_cast<std::int64_t>(ids.count()), nullptr, row_count, memory.data()};
  };
  auto const memory_of = [&](std::int64_t capacity, std::int64_t row_count, bool keeps_others) {
    return this->workspace(
        scatter_rows_workspace_bytes(this->stream(), capacity, row_count, keeps_others));
  };
  {
    Integers ids(kRows, -1);
    ids.front() = 1;
    ids.back() = 0;
    auto const device_ids = this->upload(ids);
    auto const memory = memory_of(kRows, 2, false);
    auto const output = this->template poisoned<Half>(2 * kWidth);
    this->replay([&](TypeParam stream) {
      scatter_rows(stream,
                   {rows->data(), kRowBytes, targets(device_ids, memory, 2), false, output.data()});
    });
    this->expect_rows(output, kWidth, {4, 1});
  }
  auto const last_ids = this->upload(Integers{kRows - 1, kRows - 3});
  auto const gradient_memory =
      this->workspace(scatter_rows_gradient_workspace_bytes(this->stream(), 2, kRows));
  auto const gradients = this->template poisoned<Half>(2 * kWidth);
  this->replay([&](TypeParam stream) {
    scatter_rows_gradient(
        stream,
        {rows->data(), kRowBytes, targets(last_ids, gradient_memory, kRows), gradients.data()});
  });
  this->expect_rows(gradients, kWidth, {4, 2});
  auto const values = this->template poisoned<Half>(2 * kWidth);
  this->set_row(values, 0, kWidth, Half{8});
  this->set_row(values, 1, kWidth, Half{9});
  auto const memory = memory_of(2, kRows, true);
  this->replay([&](TypeParam stream) {
    scatter_rows(stream,
                 {values.data(), kRowBytes, targets(last_ids, memory, kRows), true, rows->data()});
  });
  this->expect_rows(rows->slice((kRows - 3) * kWidth, 3 * kWidth), kWidth, {9, 3, 8});
}

// The values of the test are 8.6 GB of floats.
TYPED_TEST(RowsOfManyElementsTest, segments) {
  constexpr std::int64_t kPlaces = (std::int64_t{1} << 21) + 1;
  constexpr std::int64_t kColumns = 1024;
  static_assert((kPlaces - 1) * kColumns == std::int64_t{1} << 31);
  auto const values = this->template many<float>(kPlaces * kColumns);
  if (!values) {
    return;
  }
  this->set_row(*values, 0, kColumns, 1.0F);
  this->set_row(*values, kPlaces - 2, kColumns, 2.0F);
  this->set_row(*values, kPlaces - 1, kColumns, 4.0F);
  auto const expect_reduced = [&](SegmentForm form,
                                  Buffer<std::int64_t> const& indices,
                                  SegmentReduction reduction,
                                  Floats const& expected) {
    for (bool const is_deterministic : {true, false}) {
      if (!is_deterministic && form != SegmentForm::unsorted_ids) {
        continue;  // only sums of unsorted ids depend on `deterministic`
      }
      SCOPED_TRACE(
          fmt::format("form {}, deterministic: {}", static_cast<int>(form), is_deterministic));
      auto const output = this->floats(2 * kColumns);
      SegmentArgs args{
          .values = values->data(),
          .width = kColumns,
          .layout = {.form = form, .segments = 2, .capacity = kPlaces, .indices = indices.data()},
          .reduction = reduction,
          .empty_value = 0.0F,
          .deterministic = is_deterministic,
          .output = output.data(),
          .workspace = nullptr};
      auto const memory = this->workspace(segment_reduce_workspace_bytes(this->stream(), args));
      args.workspace = memory.data();
      this->replay([&](TypeParam stream) { segment_reduce(stream, args); });
      this->expect_rows(output, kColumns, expected);
    }
  };
  auto const offsets = this->upload(Integers{kPlaces - 2, kPlaces, kPlaces});
  expect_reduced(SegmentForm::offsets, offsets, SegmentReduction::sum, {6, 0});
  expect_reduced(SegmentForm::offsets, offsets, SegmentReduction::max, {4, 0});
  Integers ids(kPlaces, -1);
  ids[kPlaces - 2] = 0;
  ids[kPlaces - 1] = 1;
  auto const sorted = this->upload(ids);
  expect_reduced(SegmentForm::sorted_ids, sorted, SegmentReduction::sum, {2, 4});
  expect_reduced(SegmentForm::sorted_ids, sorted, SegmentReduction::max, {2, 4});
  ids.front() = 1;
  ids[kPlaces - 2] = 1;
  ids[kPlaces - 1] = 0;
  auto const unsorted = this->upload(ids);
  expect_reduced(SegmentForm::unsorted_ids, unsorted, SegmentReduction::sum, {4, 3});
  expect_reduced(SegmentForm::unsorted_ids, unsorted, SegmentReduction::max, {4, 2});
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
