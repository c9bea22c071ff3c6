// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/jagged.hpp>
#include <msstream/step/captured_step.hpp>

#include <vector>

namespace msstream::testing {
namespace {

constexpr std::int64_t kSoftmaxRows = 4000;
constexpr std::int64_t kSoftmaxWidth = 33;
constexpr std::size_t kSoftmaxSegments = 40;

template <class R>
class CapturedSoftmaxTest : public OpsTest<R> {
 protected:
  /// Returns the offsets of kSoftmaxSegments segments, of which the last ones are empty.
  static Integers offsets_of(Integers lengths) {
    lengths.resize(kSoftmaxSegments, 0);
    Integers offsets{0};
    for (auto const length : lengths) {
      offsets.push_back(offsets.back() + length);
    }
    return offsets;
  }
};
TYPED_TEST_SUITE(CapturedSoftmaxTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedSoftmaxTest, one_capture_serves_long_and_short_segments) {
  auto const values =
      this->put(this->random.reals(kSoftmaxRows * kSoftmaxWidth), {kSoftmaxRows, kSoftmaxWidth});
  auto const offsets = zeros<std::int64_t>(this->device(), {kSoftmaxSegments + 1});
  using Results = std::vector<Tensor<float, TypeParam>>;
  auto const both = [&] {
    auto const output = ops::jagged_softmax(values, offsets);
    return Results{output, ops::jagged_softmax_gradient(output, values, offsets)};
  };
  (void)both();
  Results replayed;
  CapturedStep<TypeParam> step(this->device(), [&] { replayed = both(); });
  for (Integers const& lengths : {Integers{kSoftmaxRows},
                                  Integers(kSoftmaxSegments, 100),
                                  Integers{5, 249, 0, 250, 1000, 1, 498, 1200},
                                  Integers{},
                                  Integers{0, 7, kSoftmaxRows - 7}}) {
    copy(offsets, this->put(this->offsets_of(lengths)));
    step.replay();
    auto const eager = both();
    ASSERT_EQ(replayed.size(), eager.size());
    for (std::size_t i = 0; i < eager.size(); ++i) {
      EXPECT_TRUE(to_host(replayed[i]) == to_host(eager[i])) << lengths.size() << " segments";
    }
  }
}

}  // namespace
}  // namespace msstream::testing
