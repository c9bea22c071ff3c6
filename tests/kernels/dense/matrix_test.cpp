// SPDX-License-Identifier: Apache-2.0
#include "dense/matrix.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class MatrixTest : public KernelTest<Stream> {
 protected:
  void check_transpose(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
    SCOPED_TRACE(fmt::format("{} of {} by {}", batch, rows, columns));
    auto const values = this->random.reals(batch * rows * columns);
    std::vector<float> expected(values.size());
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          expected[static_cast<std::size_t>((b * columns + column) * rows + row)] =
              values[static_cast<std::size_t>((b * rows + row) * columns + column)];
        }
      }
    }
    auto const input = this->upload(values);
    auto const output = this->guarded(static_cast<std::int64_t>(values.size()));
    transpose(this->stream(), {input.data(), output.data(), batch, rows, columns});
    EXPECT_EQ(this->read(output), expected);
  }
};
TYPED_TEST_SUITE(MatrixTest, StreamKinds, StreamKindName);

TYPED_TEST(MatrixTest, transpose_puts_every_element_in_its_place) {
  // The extents are just below, at and above the side of a tile, 32, and more than one tile.
  constexpr std::int64_t kExtents[] = {0, 1, 3, 31, 32, 33, 100};
  for (std::int64_t const batch : {0, 1, 3}) {
    for (auto const rows : kExtents) {
      for (auto const columns : kExtents) {
        this->check_transpose(batch, rows, columns);
      }
    }
  }
}

TYPED_TEST(MatrixTest, transpose_of_many_tiles_puts_every_element_in_its_place) {
  this->check_transpose(1, 512, 256);  // 128 tiles
  this->check_transpose(1, 385, 350);  // 143 tiles
  this->check_transpose(1, 512, 512);  // 256 tiles
  this->check_transpose(3, 200, 231);  // 168 tiles
  this->check_transpose(43, 33, 40);   // 172 tiles, most of them partial
  this->check_transpose(1, 1, 5'000);  // 157 tiles
}

TYPED_TEST(MatrixTest, add_identity_changes_the_diagonal_alone) {
  for (std::int64_t const width : {0, 1, 2, 3, 4, 5, 32, 67, 362, 363, 512, 548}) {
    for (std::int64_t const offset : {0, 1}) {
      SCOPED_TRACE(fmt::format("width {}, offset {}", width, offset));
      auto const values = this->random.reals(width * width);
      auto expected = values;
      for (std::int64_t row = 0; row < width; ++row) {
        expected[static_cast<std::size_t>(row * width + row)] += 0.75F;
      }
      auto const input = this->upload(values);
      auto const output = this->guarded(width * width, offset);
      add_identity(this->stream(), {input.data(), output.data(), width, 0.75F});
      EXPECT_EQ(this->read(output), expected);
      add_identity(this->stream(), {input.data(), input.data(), width, 0.75F});
      EXPECT_EQ(this->read(input), expected);
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
