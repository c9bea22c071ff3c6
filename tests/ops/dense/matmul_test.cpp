// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/matrix.hpp>

namespace msstream::testing {
namespace {

template <class R>
class MatmulTest : public OpsTest<R> {};
TYPED_TEST_SUITE(MatmulTest, Runtimes, RuntimeNames);

TYPED_TEST(MatmulTest, of_two_matrices) {
  auto const left = this->put(Floats{1, 2, 3, 4, 5, 6}, {2, 3});
  auto const right = this->put(Floats{1, 0, 2, 0, 1, 3}, {2, 3});
  auto const by_transposed = ops::matmul(left, right, {.transpose_right = true, .factor = 2});
  EXPECT_EQ(by_transposed.shape(), (Shape{2, 2}));
  EXPECT_EQ(to_host(by_transposed), (Floats{14, 22, 32, 46}));
  auto const of_transposed = ops::matmul(left, right, {.transpose_left = true});
  EXPECT_EQ(of_transposed.shape(), (Shape{3, 3}));
  EXPECT_EQ(to_host(of_transposed), (Floats{1, 4, 14, 2, 5, 19, 3, 6, 24}));
}

TYPED_TEST(MatmulTest, a_matrix_serves_a_whole_batch) {
  auto const one = this->put(Floats{1, 2, 3, 4}, {2, 2});
  auto const many = this->put(Floats{1, 0, 0, 1, 0, 1, 1, 0, 2, 0, 0, 2}, {3, 2, 2});
  auto const left = ops::matmul(one, many);
  EXPECT_EQ(left.shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(to_host(left), (Floats{1, 2, 3, 4, 2, 1, 4, 3, 2, 4, 6, 8}));
  EXPECT_EQ(to_host(ops::matmul(many, one)), (Floats{1, 2, 3, 4, 3, 4, 1, 2, 2, 4, 6, 8}));
  EXPECT_EQ(to_host(ops::matmul(many, one, {.transpose_left = true})),
            to_host(ops::matmul(many, one)))
      << "they are symmetric";
  EXPECT_EQ(to_host(ops::matmul(many, many)), (Floats{1, 0, 0, 1, 1, 0, 0, 1, 4, 0, 0, 4}));
}

TYPED_TEST(MatmulTest, refuses_shapes_that_do_not_fit) {
  auto const x = this->any({4, 3});
  auto const y = this->any({4, 2});
  auto const refused = [&](auto const& left, auto const& right, ops::MatmulOptions options = {}) {
    expect_refused(
        [&] { (void)ops::matmul(left, right, options); }, "matmul", left.shape(), right.shape());
  };
  refused(x, y);
  refused(x, x, {.transpose_left = true, .transpose_right = true});
  refused(this->any({2, 4, 3}), this->any({5, 3, 4}));
  expect_refused([&] { (void)ops::matmul(x, this->any({3})); }, "matmul", "[3]");
  expect_refused([&] { (void)ops::matmul(this->any({}), x); }, "matmul", "[]");
}

}  // namespace
}  // namespace msstream::testing
