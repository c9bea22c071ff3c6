// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"
#include "metrics/metrics_fixture.hpp"

#include <msstream/metrics/auc.hpp>
#include <msstream/metrics/calibration.hpp>
#include <msstream/metrics/log_loss.hpp>
#include <msstream/metrics/mean.hpp>
#include <msstream/metrics/metric_set.hpp>
#include <msstream/metrics/of_all_ranks.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::metrics::testing {
namespace {

using msstream::testing::message_of;
using msstream::testing::Rank;
using ::testing::HasSubstr;

template <class R>
class MetricsOfAllRanks : public msstream::testing::RanksTest<R> {
 protected:
  static constexpr std::int64_t kMost = 400;
  using Values = std::vector<std::pair<std::string, std::optional<double>>>;

  /// The metrics of one rank, with room for the examples of three batches of up to 4 ranks.
  struct Metrics {
    Auc<R> auc;
    LogLoss<R> log_loss;
    Calibration<R> calibration;
    MeanSquaredError<R> error;

    explicit Metrics(Device<R> const& device)
        : auc(device, {.capacity = 12 * kMost, .weighted = true}),
          log_loss(device),
          calibration(device),
          error(device) {}
    [[nodiscard]] MetricSet<R> set() const { return MetricSet(auc, log_loss, calibration, error); }
  };

  /// Returns examples [begin, end) on the device of a rank.
  static Batch<R> batch(Rank<R> const& rank,
                        Examples const& examples,
                        std::size_t begin,
                        std::size_t end) {
    auto const part = [&](std::vector<float> const& values) {
      std::vector<float> const own(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                   values.begin() + static_cast<std::ptrdiff_t>(end));
      return rank.tensor(own);
    };
    Batch<R> made{.scores = part(examples.scores), .labels = part(examples.labels)};
    if (!examples.weights.empty()) {
      made.weights = part(examples.weights);
    }
    return made;
  }
};
TYPED_TEST_SUITE(MetricsOfAllRanks,
                 msstream::testing::RankRuntimes,
                 msstream::testing::RuntimeNamesOfRanks);

TYPED_TEST(MetricsOfAllRanks, have_the_bits_of_one_rank) {
  using R = TypeParam;
  for (bool const weighted : {false, true}) {
    msstream::testing::Random random;
    auto const examples = random_examples(random, 600, 20.0F, weighted);
    typename TestFixture::Values expected;
    msstream::testing::on_ranks<R>(1, [&](Rank<R> const& rank) {
      typename TestFixture::Metrics const metrics(rank.device);
      auto whole = TestFixture::batch(rank, examples, 0, 600);
      if (!whole.weights) {
        whole.weights = rank.tensor(std::vector<float>(600, 1.0F));
      }
      metrics.set().update(whole);
      expected = metrics.set().values();
    });
    ASSERT_TRUE(expected[0].second && *expected[0].second > 0.6);
    // The ends of the parts of the ranks: uneven ones, among them whole and empty ones.
    std::vector<std::vector<std::size_t>> const all_ends{
        {600}, {399, 600}, {400, 600}, {1, 400, 600}, {200, 200, 600}, {0, 300, 300, 600}};
    for (auto const& ends : all_ends) {
      auto const ranks = static_cast<int>(ends.size());
      if (ranks > msstream::testing::most_ranks<R>() || (ranks == 1)) {
        continue;
      }
      msstream::testing::on_ranks<R>(ranks, [&](Rank<R> const& rank) {
        auto const own = static_cast<std::size_t>(rank.rank());
        typename TestFixture::Metrics const metrics(rank.device);
        metrics.set().update(of_all_ranks(
            rank.communicator,
            TestFixture::batch(rank, examples, own == 0 ? 0 : ends[own - 1], ends[own]),
            TestFixture::kMost));
        EXPECT_EQ(metrics.set().values(), expected) << ranks << " ranks";
      });
    }
  }
}

TYPED_TEST(MetricsOfAllRanks, refuse_what_they_cannot_gather) {
  using R = TypeParam;
  msstream::testing::on_ranks<R>(1, [&](Rank<R> const& rank) {
    auto const two = rank.tensor(std::vector<float>{1, 2});
    auto const three = rank.tensor(std::vector<float>{1, 2, 3});
    auto const ids = rank.tensor(std::vector<std::int64_t>{1, 2});
    auto const refusal = [&](Batch<R> const& own, std::int64_t most) {
      return message_of<std::invalid_argument>(
          [&] { static_cast<void>(of_all_ranks(rank.communicator, own, most)); });
    };
    EXPECT_THAT(refusal({.scores = three, .labels = three}, 2),
                HasSubstr("3 examples with most_examples 2"));
    EXPECT_THAT(refusal({.scores = three, .labels = two}, 4), HasSubstr("3 scores, and labels"));
    EXPECT_THAT(refusal({.scores = two, .labels = two, .weights = three}, 4),
                HasSubstr("2 scores, and weights of shape [3]"));
    EXPECT_THAT(refusal({.scores = two, .labels = two, .users = ids}, 4), HasSubstr("users"));
    EXPECT_THAT(refusal({.scores = two, .targets = ids}, 4), HasSubstr("targets"));
  });
}

}  // namespace
}  // namespace msstream::metrics::testing
