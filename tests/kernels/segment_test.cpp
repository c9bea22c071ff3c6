// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_fixture.hpp"

#include <msstream/ops/kernels/segment.hpp>

#include <cmath>
#include <numeric>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;

template <class Stream>
class SegmentTest : public KernelTest<Stream> {
 protected:
  /// Small whole numbers: their sums are exact in float in any order, so that one lost or doubled
  /// row among thousands shows.
  std::vector<float> whole_numbers(std::int64_t count) {
    std::vector<float> out(static_cast<std::size_t>(count));
    std::generate(
        out.begin(), out.end(), [&] { return static_cast<float>(this->random.integer(-8, 8)); });
    return out;
  }

  Integers offsets_of(Integers const& lengths, std::int64_t first = 0) {
    Integers offsets{first};
    for (auto const length : lengths) {
      offsets.push_back(offsets.back() + length);
    }
    return offsets;
  }

  std::vector<float> reduce(std::vector<float> const& values,
                            Integers const& offsets,
                            std::int64_t capacity,
                            std::int64_t width,
                            Pooling pooling) {
    auto const segments = static_cast<std::int64_t>(offsets.size()) - 1;
    auto const input = this->upload(values);
    auto const bounds = this->upload(offsets);
    auto const output = this->floats(segments * width);
    auto const memory =
        this->workspace(segment_reduce_workspace_bytes(this->stream(), capacity, segments, width));
    this->replay([&](Stream stream) {
      segment_reduce(stream,
                     {input.data(),
                      capacity,
                      width,
                      bounds.data(),
                      segments,
                      pooling,
                      output.data(),
                      memory.data()});
    });
    return this->read(output);
  }

  /// Sum and mean of whole numbers, exactly, and twice the same bits; `spare` places follow the
  /// last segment.
  void expect_reduced(Integers const& offsets, std::int64_t width, std::int64_t spare = 0) {
    auto const segments = offsets.size() - 1;
    SCOPED_TRACE(text(segments, " segments, ", offsets.back(), " places, width ", width));
    auto const capacity = offsets.back() + spare;
    auto const values = whole_numbers(capacity * width);
    auto const sums = reduce(values, offsets, capacity, width, Pooling::sum);
    auto const means = reduce(values, offsets, capacity, width, Pooling::mean);
    for (std::size_t s = 0; s < segments; ++s) {
      auto const places = offsets[s + 1] - offsets[s];
      for (std::int64_t c = 0; c < width; ++c) {
        double sum = 0.0;
        for (auto i = offsets[s]; i < offsets[s + 1]; ++i) {
          sum += values[static_cast<std::size_t>(i * width + c)];
        }
        auto const at = s * static_cast<std::size_t>(width) + static_cast<std::size_t>(c);
        auto const mean = places > 0 ? static_cast<float>(sum) / static_cast<float>(places) : 0.0F;
        ASSERT_EQ(sums[at], static_cast<float>(sum)) << "segment " << s << " column " << c;
        ASSERT_EQ(means[at], mean) << "segment " << s << " column " << c;
      }
    }
  }

  void expect_gradient(Integers const& offsets, std::int64_t width, std::int64_t spare) {
    auto const segments = static_cast<std::int64_t>(offsets.size()) - 1;
    auto const capacity = offsets.back() + spare;
    auto const gradients = this->random.reals(segments * width);
    auto const input = this->upload(gradients);
    auto const bounds = this->upload(offsets);
    for (auto const pooling : {Pooling::sum, Pooling::mean}) {
      auto const output = this->floats(capacity * width);
      this->replay([&](Stream stream) {
        segment_reduce_gradient(
            stream,
            {input.data(), bounds.data(), segments, capacity, width, pooling, output.data()});
      });
      auto const found = this->read(output);
      for (std::int64_t i = 0; i < capacity; ++i) {
        auto const after = std::upper_bound(offsets.begin(), offsets.end(), i);
        bool const is_held = after != offsets.begin() && after != offsets.end();
        for (std::int64_t c = 0; c < width; ++c) {
          double expected = 0.0;
          if (is_held) {
            auto const segment = after - offsets.begin() - 1;
            auto const places = static_cast<double>(*after - *(after - 1));
            expected = gradients[static_cast<std::size_t>(segment * width + c)] /
                       (pooling == Pooling::mean ? places : 1.0);
          }
          ASSERT_NEAR(found[static_cast<std::size_t>(i * width + c)],
                      expected,
                      std::abs(expected) * 0x1p-22)
              << "place " << i << " column " << c;
        }
      }
    }
  }
};
TYPED_TEST_SUITE(SegmentTest, StreamKinds, StreamKindName);

TYPED_TEST(SegmentTest, ReducesRandomSegments) {
  for (auto const width : kWidths) {
    for (std::int64_t const segments : {1, 9, 300, 3000}) {
      this->expect_reduced(this->offsets_of(this->random.integers(segments, 0, 8)), width, 5);
    }
  }
}

TYPED_TEST(SegmentTest, EmptySegmentsFirstMiddleLastAndAll) {
  for (std::int64_t const width : {3, 16}) {
    this->expect_reduced(this->offsets_of({0, 0, 3, 0, 0, 0, 2, 0}), width);
    this->expect_reduced(this->offsets_of({0, 0, 0}), width);
    this->expect_reduced(this->offsets_of(Integers(50'000, 0)), width, 3);
    Integers mostly_empty(50'000, 0);
    mostly_empty[20'000] = 5000;
    mostly_empty[40'000] = 1;
    this->expect_reduced(this->offsets_of(mostly_empty), width);
  }
}

TYPED_TEST(SegmentTest, OneLongSegmentAmongShortOnes) {
  for (auto const width : kWidths) {
    for (std::int64_t const long_length : {255, 256, 257, 2000, 30'000}) {
      auto lengths = this->random.integers(200, 0, 3);
      lengths[static_cast<std::size_t>(this->random.integer(0, 199))] = long_length;
      this->expect_reduced(this->offsets_of(lengths), width);
      this->expect_reduced(this->offsets_of({long_length}), width);
    }
  }
}

// With many more places than kernels have lanes for, chunks grow beyond their smallest length, and
// a long segment leaves more open chunks than one warp adds.
TYPED_TEST(SegmentTest, PowerLawSegments) {
  Integers lengths(2000);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    lengths[s] = static_cast<std::int64_t>(60'000 / (s + 1));
  }
  this->expect_reduced(this->offsets_of(lengths), 8);
  this->expect_reduced(this->offsets_of({100, 1'000'000, 0, 7}), 1);
  this->expect_reduced(this->offsets_of({400'000, 3}), 64);
}

TYPED_TEST(SegmentTest, PlacesBeforeTheFirstSegmentAreLeftOut) {
  this->expect_reduced(this->offsets_of({3, 0, 2}, 4), 16, 2);
  this->expect_reduced(this->offsets_of(this->random.integers(2000, 0, 6), 777), 16, 99);
}

TYPED_TEST(SegmentTest, NoSegments) {
  EXPECT_TRUE(this->reduce(this->random.reals(8), {0}, 2, 4, Pooling::sum).empty());
}

TYPED_TEST(SegmentTest, RealNumbersAreAddedToFloatAccuracyAndAlwaysToTheSameBits) {
  constexpr std::int64_t kWidth = 16;
  auto const offsets = this->offsets_of(this->random.integers(1500, 0, 20));
  auto const values = this->random.reals(offsets.back() * kWidth);
  auto const first = this->reduce(values, offsets, offsets.back(), kWidth, Pooling::sum);
  auto const second = this->reduce(values, offsets, offsets.back(), kWidth, Pooling::sum);
  EXPECT_TRUE(first == second);
  for (std::size_t at = 0; at < first.size(); ++at) {
    auto const s = at / kWidth;
    double sum = 0.0;
    for (auto i = offsets[s]; i < offsets[s + 1]; ++i) {
      sum += values[static_cast<std::size_t>(i * kWidth) + at % kWidth];
    }
    ASSERT_NEAR(first[at], sum, 20 * 20 * 0x1p-24);
  }
}

TYPED_TEST(SegmentTest, GradientReachesEveryPlaceAndZeroesTheOthers) {
  for (auto const width : kWidths) {
    this->expect_gradient(this->offsets_of({0, 4, 0, 0, 40, 1, 0}, 3), width, 9);
    this->expect_gradient(this->offsets_of(this->random.integers(500, 0, 5)), width, 0);
    this->expect_gradient({0}, width, 20);
  }
  this->expect_gradient({0, 0}, 4, 0);
}

TYPED_TEST(SegmentTest, OffsetsCountTheIdsBelow) {
  for (std::int64_t const capacity : {0, 1, 1000}) {
    for (std::int64_t const segments : {0, 1, 7, 3000}) {
      auto ids = this->random.integers(capacity, -3, segments + 3);
      std::sort(ids.begin(), ids.end());
      auto const input = this->upload(ids);
      for (auto const count : {std::int64_t{0}, capacity / 2, capacity}) {
        auto const on_device = this->scalar(count);
        auto const offsets = this->integers(segments + 1);
        this->replay([&](TypeParam stream) {
          segment_offsets(stream,
                          {input.data(), capacity, on_device.data(), segments, offsets.data()});
        });
        auto const found = this->read(offsets);
        for (std::int64_t s = 0; s <= segments; ++s) {
          ASSERT_EQ(
              found[static_cast<std::size_t>(s)],
              std::count_if(ids.begin(), ids.begin() + count, [&](auto id) { return id < s; }))
              << s << " of " << segments << ", " << count << " of " << capacity;
        }
      }
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
