// SPDX-License-Identifier: Apache-2.0
#include "normalize/l2_normalize.hpp"

#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

using Float64s = std::vector<double>;

/// Rows and widths.
constexpr std::pair<std::int64_t, std::int64_t> kNormedMatrices[] = {
    {1, 1},      {2, 3},    {31, 32},     {33, 31},    {8192, 16}, {31, 100},   {127, 128},
    {1000, 129}, {2, 1000}, {31, 4096},   {70'001, 1}, {701, 5},   {33, 17},    {9001, 33},
    {61, 63},    {61, 65},  {31, 127},    {5, 255},    {33, 257},  {4300, 513}, {33, 544},
    {33, 545},   {33, 641}, {5000, 1025}, {3, 8191},   {3, 8192},  {2, 8193},   {2, 20'000}};

template <class Stream>
class L2NormalizeTest : public KernelTest<Stream> {};
TYPED_TEST_SUITE(L2NormalizeTest, StreamKinds, StreamKindName);

TYPED_TEST(L2NormalizeTest, rows_divided_by_their_norms_agree_with_double) {
  for (auto const& [rows, width] : kNormedMatrices) {
    auto const offset = this->random.integer(0, 3);
    SCOPED_TRACE(fmt::format("{} x {} from element {}", rows, width, offset));
    auto const count = rows * width;
    auto values = this->random.reals(count);
    // The first row is shorter than epsilon.
    for (std::int64_t c = 0; c < width; ++c) {
      values[static_cast<std::size_t>(c)] *= 1e-6F;
    }
    constexpr float kLeastNorm = 1e-3F;
    auto const gradients = this->random.reals(count);
    auto const shifted = [&](std::vector<float> longer) {
      longer.insert(longer.begin(), static_cast<std::size_t>(offset), 0.0F);
      return this->upload(longer);
    };
    auto const input = shifted(values);
    auto const gradient = shifted(gradients);
    auto const output = this->guarded(count, offset);
    auto const of_input = this->guarded(count, offset);
    l2_normalize(this->stream(), {input.data() + offset, output.data(), rows, width, kLeastNorm});
    l2_normalize_gradient(this->stream(),
                          {input.data() + offset,
                           gradient.data() + offset,
                           of_input.data(),
                           rows,
                           width,
                           kLeastNorm});
    Float64s expected;
    Float64s expected_gradient;
    for (std::int64_t r = 0; r < rows; ++r) {
      double squares = 0;
      double products = 0;
      for (auto i = r * width; i < (r + 1) * width; ++i) {
        auto const at = static_cast<std::size_t>(i);
        squares += double{values[at]} * values[at];
        products += double{values[at]} * gradients[at];
      }
      double const norm = std::max(std::sqrt(squares), double{kLeastNorm});
      bool const is_short = std::sqrt(squares) <= double{kLeastNorm};
      for (auto i = r * width; i < (r + 1) * width; ++i) {
        auto const at = static_cast<std::size_t>(i);
        expected.push_back(values[at] / norm);
        expected_gradient.push_back(
            (gradients[at] - (is_short ? 0.0 : values[at] * products / squares)) / norm);
      }
    }
    expect_within(this->read(output), expected);
    expect_within(this->read(of_input), expected_gradient);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
