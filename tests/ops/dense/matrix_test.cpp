// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/matrix.hpp>

namespace msstream::testing {
namespace {

template <class R>
class MatrixTest : public OpsTest<R> {};
TYPED_TEST_SUITE(MatrixTest, Runtimes, RuntimeNames);

TYPED_TEST(MatrixTest, transpose_of_a_matrix_and_of_a_batch) {
  auto const matrix = ops::transpose(this->put(Floats{1, 2, 3, 4, 5, 6}, {2, 3}));
  EXPECT_EQ(matrix.shape(), (Shape{3, 2}));
  EXPECT_EQ(to_host(matrix), (Floats{1, 4, 2, 5, 3, 6}));
  auto const batch = ops::transpose(this->put(Floats{1, 2, 3, 4, 5, 6, 7, 8}, {2, 1, 4}));
  EXPECT_EQ(batch.shape(), (Shape{2, 4, 1}));
  EXPECT_EQ(to_host(batch), (Floats{1, 2, 3, 4, 5, 6, 7, 8}));
  auto const large = this->random_tensor({2, 50, 70});
  EXPECT_EQ(to_host(ops::transpose(ops::transpose(large))), to_host(large));
}

TYPED_TEST(MatrixTest, add_identity_of_a_square_matrix) {
  auto const x = this->put(Floats{1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(to_host(ops::add_identity(x)), (Floats{2, 2, 3, 5}));
  EXPECT_EQ(to_host(ops::add_identity(x, -4.0F)), (Floats{-3, 2, 3, 0}));
  EXPECT_TRUE(to_host(ops::add_identity(this->any({0, 0}))).empty());
}

TYPED_TEST(MatrixTest, refuses_other_ranks_and_what_is_not_square) {
  expect_refused([&] { (void)ops::transpose(this->any({6})); }, "transpose", "[6]");
  expect_refused(
      [&] {
        (void)ops::transpose(this->any({1, 2, 3, 4}));
      },
      "transpose",
      "[1, 2, 3, 4]");
  expect_refused([&] { (void)ops::add_identity(this->any({2, 3})); }, "add_identity", "[2, 3]");
  expect_refused(
      [&] {
        (void)ops::add_identity(this->any({2, 2, 2}));
      },
      "add_identity",
      "[2, 2, 2]");
}

}  // namespace
}  // namespace msstream::testing
