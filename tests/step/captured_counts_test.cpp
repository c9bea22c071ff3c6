// SPDX-License-Identifier: Apache-2.0
#include "step/captured_fixture.hpp"

#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/embedding_update.hpp>
#include <msstream/ops/gather.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/ops/jagged_softmax.hpp>
#include <msstream/ops/lengths.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/ops/unique.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

/// One captured operation serves every count up to its capacity, with the bits of an eager one.
namespace msstream::testing {
namespace {

using ops::Bags;
using ops::Pooling;

constexpr std::int64_t kMostPlaces = 6000;
constexpr std::int64_t kGroupsOfPlaces = 500;
constexpr std::int64_t kColumns = 20;

/// What varies: how many places exist, and what is in them.
template <class R>
struct Content {
  explicit Content(Device<R> const& device)
      : count(zeros<std::int64_t>(device, Shape{})),
        ids(zeros<std::int64_t>(device, {kMostPlaces})),
        sorted_ids(zeros<std::int64_t>(device, {kMostPlaces})),
        offsets(zeros<std::int64_t>(device, {kGroupsOfPlaces + 1})),
        values(zeros<float>(device, {kMostPlaces, kColumns})),
        table(zeros<float>(device, {kGroupsOfPlaces, kColumns})) {}

  void fill(Device<R> const& device, Random& random, std::int64_t existing) const {
    auto const put = [&](auto const& to, auto numbers) {
      copy(to, to_device(device, numbers, to.shape()));
    };
    auto numbers = random.integers(kMostPlaces, -2, kGroupsOfPlaces + 1);
    put(ids, numbers);
    std::sort(numbers.begin(), numbers.begin() + existing);
    put(sorted_ids, numbers);
    auto ends = random.integers(kGroupsOfPlaces + 1, 0, existing);
    std::sort(ends.begin(), ends.end());
    put(offsets, ends);
    put(values, random.reals(kMostPlaces * kColumns));
    put(table, random.reals(kGroupsOfPlaces * kColumns));
    put(count, Integers{existing});
  }
  [[nodiscard]] Bags<R> jagged() const { return Bags<R>(ids, offsets); }

  Tensor<std::int64_t, R> count;
  Tensor<std::int64_t, R> ids;
  Tensor<std::int64_t, R> sorted_ids;
  Tensor<std::int64_t, R> offsets;
  Tensor<float, R> values;
  Tensor<float, R> table;
};

/// Results as floats, zeros where an operation leaves what was there.
template <class R>
using Operation = std::function<std::vector<Tensor<float, R>>(Content<R> const&)>;

template <Runtime R>
std::vector<std::pair<std::string, Operation<R>>> operations() {
  using Results = std::vector<Tensor<float, R>>;
  using ops::SegmentReduction;
  return {
      {"lookup",
       [](Content<R> const& in) -> Results {
         auto bags = in.jagged();
         ops::LookupOptions<R> const mean{.pooling = Pooling::mean};
         bags.default_id = 3;
         return {ops::embedding_lookup(in.table, bags, mean),
                 ops::embedding_lookup(in.table, in.jagged(), {.pooling = Pooling::max})};
       }},
      {"update",
       [](Content<R> const& in) -> Results {
         auto const bags = in.jagged();
         auto const moved = ops::scale(in.table, 1.0F);
         ops::OptimizerRule const rule{ops::OptimizerKind::sgd, 0.1F};
         auto const& device = in.table.device();
         ops::StepCounter<R> const step{Device<R>(device)};
         ops::update_embedding(rule,
                               step,
                               moved,
                               {},
                               bags,
                               ops::deduplicate(bags, kGroupsOfPlaces),
                               Pooling::sum,
                               in.values.rows(0, kGroupsOfPlaces));
         return {moved};
       }},
      {"segments by offsets",
       [](Content<R> const& in) -> Results {
         return {ops::segment_reduce(in.values, in.offsets, SegmentReduction::sum),
                 ops::segment_reduce(in.values, in.offsets, SegmentReduction::max)};
       }},
      {"segments by ids",
       [](Content<R> const& in) -> Results {
         return {
             ops::sorted_segment_mean(
                 in.values, in.sorted_ids, kGroupsOfPlaces, {.count = in.count}),
             ops::unsorted_segment_sum(in.values, in.ids, kGroupsOfPlaces, {.count = in.count}),
             ops::unsorted_segment_min(in.values, in.ids, kGroupsOfPlaces, {.count = in.count})};
       }},
      {"rows of distinct ids",
       [](Content<R> const& in) -> Results {
         auto const unique = ops::unique(in.ids, {.below = kGroupsOfPlaces, .count = in.count});
         auto const sums =
             ops::unsorted_segment_sum(in.values, unique.inverse, kMostPlaces, {.count = in.count});
         return {sums.rows(0, kGroupsOfPlaces)};
       }},
      {"dense form and back",
       [](Content<R> const& in) -> Results {
         return {ops::dense_to_jagged(
             ops::jagged_to_dense(in.values, in.offsets, 30), in.offsets, kMostPlaces)};
       }},
      {"softmax", [](Content<R> const& in) -> Results {
         return {ops::jagged_softmax(in.values, in.offsets)};
       }}};
}

template <class R>
class CapturedCountsTest : public OpsTest<R> {};
TYPED_TEST_SUITE(CapturedCountsTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedCountsTest, OneCaptureServesEveryCount) {
  for (auto const& [name, operation] : operations<TypeParam>()) {
    SCOPED_TRACE(name);
    Content<TypeParam> const in(this->device());
    in.fill(this->device(), this->random, kMostPlaces);
    (void)operation(in);
    std::vector<Tensor<float, TypeParam>> replayed;
    CapturedStep<TypeParam> step(this->device(), [&] { replayed = operation(in); });
    for (std::int64_t const existing :
         {kMostPlaces, std::int64_t{0}, std::int64_t{1}, kMostPlaces / 3, kMostPlaces}) {
      in.fill(this->device(), this->random, existing);
      step.replay();
      auto const eager = operation(in);
      ASSERT_EQ(replayed.size(), eager.size());
      for (std::size_t i = 0; i < eager.size(); ++i) {
        EXPECT_TRUE(same_bits(to_host(replayed[i]), to_host(eager[i])))
            << "result " << i << " of " << existing << " places";
      }
    }
  }
}

TYPED_TEST(CapturedCountsTest, TwentyRunsGiveTheSameBits) {
  for (auto const& [name, operation] : operations<TypeParam>()) {
    SCOPED_TRACE(name);
    Content<TypeParam> const in(this->device());
    in.fill(this->device(), this->random, kMostPlaces - 7);
    auto const first = operation(in);
    for (int run = 1; run < 20; ++run) {
      auto const again = operation(in);
      for (std::size_t i = 0; i < first.size(); ++i) {
        ASSERT_TRUE(same_bits(to_host(again[i]), to_host(first[i]))) << "run " << run;
      }
    }
  }
}

}  // namespace
}  // namespace msstream::testing
