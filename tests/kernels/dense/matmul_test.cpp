// SPDX-License-Identifier: Apache-2.0
#include "dense/matmul.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <cmath>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class MatmulTest : public KernelTest<Stream> {};
TYPED_TEST_SUITE(MatmulTest, StreamKinds, StreamKindName);

struct Sizes {
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;
};

TYPED_TEST(MatmulTest, is_the_product_however_the_operands_lie) {
  for (auto const& [rows, inner, columns] : {Sizes{0, 3, 4},
                                             {3, 0, 4},
                                             {1, 1, 1},
                                             {9, 21, 6},
                                             {64, 32, 16},
                                             {5, 300, 1},
                                             {1, 1024, 1},
                                             {9, 1031, 6}}) {
    for (std::int64_t const batch : {0, 1, 5}) {
      for (int const flags : {0, 1, 2, 3, 4, 8, 9, 6, 15}) {
        MatmulArgs args{.left = nullptr,
                        .right = nullptr,
                        .product = nullptr,
                        .rows = rows,
                        .inner = inner,
                        .columns = columns,
                        .transpose_left = (flags & 1) != 0,
                        .transpose_right = (flags & 2) != 0,
                        .batch = batch,
                        .shared_left = (flags & 4) != 0,
                        .shared_right = (flags & 8) != 0,
                        .factor = -0.5F};
        SCOPED_TRACE(fmt::format("{} x {} x {}, batch {}, {}", rows, inner, columns, batch, flags));
        auto const left_values = this->random.reals((args.shared_left ? 1 : batch) * rows * inner);
        auto const right_values =
            this->random.reals((args.shared_right ? 1 : batch) * inner * columns);
        auto const left = this->upload(left_values);
        auto const right = this->upload(right_values);
        auto const product = this->floats(batch * rows * columns);
        args.left = left.data();
        args.right = right.data();
        args.product = product.data();
        auto const workspace = this->workspace(matmul_workspace_bytes(this->stream(), args));
        args.workspace = workspace.data();
        matmul(this->stream(), args);
        auto const actual = this->read(product);
        std::size_t place = 0;
        for (std::int64_t b = 0; b < batch; ++b) {
          for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t column = 0; column < columns; ++column, ++place) {
              double sum = 0;
              double magnitude = 0;
              for (std::int64_t k = 0; k < inner; ++k) {
                auto const l = (args.shared_left ? 0 : b * rows * inner) +
                               (args.transpose_left ? k * rows + row : row * inner + k);
                auto const r = (args.shared_right ? 0 : b * inner * columns) +
                               (args.transpose_right ? column * inner + k : k * columns + column);
                double const term = -0.5 * left_values[static_cast<std::size_t>(l)] *
                                    right_values[static_cast<std::size_t>(r)];
                sum += term;
                magnitude += std::abs(term);
              }
              ASSERT_LE(std::abs(actual[place] - sum), 1e-6 * magnitude)
                  << "product " << b << " [" << row << ", " << column << "]";
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
