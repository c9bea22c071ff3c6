// SPDX-License-Identifier: Apache-2.0
#include "step/capture/captured_counts_fixture.hpp"

#include <msstream/ops/gather.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/ops/segment.hpp>

/// Tests that one captured operation serves every count of elements up to its capacity, with the
/// bits of an eager operation.
namespace msstream::testing {
namespace {

using ops::SegmentIds;
using ops::SegmentReduction;
using ops::Segments;

/// Returns the gradients of segment_reduce() for several reductions.
template <Runtime R>
Results<R> gradients_of_segments(Content<R> const& in, Segments<R> const& segments) {
  auto const gradient_of = [&](ops::SegmentForward<R> const& forward, SegmentReduction reduction) {
    return ops::segment_reduce_gradient(in.table, segments, forward, reduction);
  };
  Results<R> gradients;
  for (auto const reduction : {SegmentReduction::sum, SegmentReduction::sqrtn}) {
    gradients.push_back(gradient_of(kMostPlaces, reduction));
  }
  for (auto const reduction : {SegmentReduction::max, SegmentReduction::prod}) {
    gradients.push_back(
        gradient_of({in.values, ops::segment_reduce(in.values, segments, reduction)}, reduction));
  }
  return gradients;
}

template <Runtime R>
Operations<R> operations() {
  return {
      {"segments by offsets",
       [](Content<R> const& in) -> Results<R> {
         return {ops::segment_reduce(in.values, in.offsets, SegmentReduction::sum),
                 ops::segment_reduce(in.values, in.offsets, SegmentReduction::max),
                 ops::segment_reduce(in.values, in.offsets, SegmentReduction::sqrtn),
                 ops::segment_reduce(in.values, in.offsets, SegmentReduction::prod)};
       }},
      {"segments by ids",
       [](Content<R> const& in) -> Results<R> {
         Segments const sorted(in.sorted_ids, kGroupsOfPlaces, SegmentIds::sorted, in.count);
         Segments const unsorted(in.ids, kGroupsOfPlaces, SegmentIds::unsorted, in.count);
         return {ops::segment_reduce(in.values, sorted, SegmentReduction::mean),
                 ops::segment_reduce(in.values, unsorted, SegmentReduction::sum),
                 ops::segment_reduce(in.values, sorted, SegmentReduction::prod),
                 ops::segment_reduce(in.values, unsorted, SegmentReduction::sqrtn),
                 ops::segment_reduce(in.values, unsorted, SegmentReduction::min)};
       }},
      {"gradients of segments by offsets",
       [](Content<R> const& in) -> Results<R> { return gradients_of_segments<R>(in, in.offsets); }},
      {"gradients of segments by sorted ids",
       [](Content<R> const& in) -> Results<R> {
         return gradients_of_segments<R>(
             in, {in.sorted_ids, kGroupsOfPlaces, SegmentIds::sorted, in.count});
       }},
      {"gradients of segments by ids",
       [](Content<R> const& in) -> Results<R> {
         return gradients_of_segments<R>(in,
                                         {in.ids, kGroupsOfPlaces, SegmentIds::unsorted, in.count});
       }},
      {"distinct ids of a table",
       [](Content<R> const& in) -> Results<R> {
         auto const unique = ops::unique(in.ids, {.below = kGroupsOfPlaces, .count = in.count});
         return {{unique.values, unique.count},
                 {unique.inverse, in.count},
                 {unique.counts, unique.count},
                 unique.count};
       }},
      {"distinct ids of any kind",
       [](Content<R> const& in) -> Results<R> {
         auto const unique = ops::unique(in.wide_ids, {.count = in.count});
         auto const first = ops::unique(
             in.wide_ids, {.order = ops::UniqueOrder::first_occurrence, .count = in.count});
         return {{unique.values, unique.count},
                 {unique.inverse, in.count},
                 {unique.counts, unique.count},
                 unique.count,
                 {first.values, first.count},
                 {first.inverse, in.count}};
       }},
      {"rows gathered, scattered and assigned",
       [](Content<R> const& in) -> Results<R> {
         std::optional const count = in.count;
         auto const assigned = ops::scale(in.table, 1.0F);
         ops::assign_rows(assigned, in.values, in.ids, count);
         return {{ops::gather_rows(in.table, in.ids, count), count},
                 ops::scatter_rows(in.values, in.ids, kGroupsOfPlaces, count),
                 ops::scatter_rows_gradient(in.table, in.ids, count),
                 assigned};
       }},
      {"lengths and offsets",
       [](Content<R> const& in) -> Results<R> {
         return {ops::lengths_to_offsets(in.ids, in.count), ops::offsets_to_lengths(in.offsets)};
       }},
      {"dense form and back",
       [](Content<R> const& in) -> Results<R> {
         return {ops::dense_to_jagged(
             ops::jagged_to_dense(in.values, in.offsets, 30), in.offsets, kMostPlaces)};
       }},
      {"rows repeated and the numbers of their samples",
       [](Content<R> const& in) -> Results<R> {
         return {ops::repeat_rows(in.table, in.offsets, kMostPlaces),
                 ops::segment_ids(in.offsets, kMostPlaces)};
       }},
      {"softmax", [](Content<R> const& in) -> Results<R> {
         auto const output = ops::jagged_softmax(in.values, in.offsets);
         auto const gradient = ops::scale(in.values, 3.0F);
         return {output, ops::jagged_softmax_gradient(output, gradient, in.offsets)};
       }}};
}

template <class R>
class CapturedCountsTest : public CapturedCounts<R> {};
TYPED_TEST_SUITE(CapturedCountsTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedCountsTest, one_capture_serves_every_count) {
  this->expect_one_capture_serves_every_count(operations<TypeParam>());
}

TYPED_TEST(CapturedCountsTest, twenty_runs_give_the_same_bits) {
  this->expect_the_same_bits_in_twenty_runs(operations<TypeParam>());
}

}  // namespace
}  // namespace msstream::testing
