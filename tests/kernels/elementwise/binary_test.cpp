// SPDX-License-Identifier: Apache-2.0
#include "elementwise/binary.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <cmath>
#include <iterator>
#include <utility>

namespace msstream::ops::kernels::testing {
namespace {

constexpr BinaryFunction kBinaryFunctions[] = {BinaryFunction::add,
                                               BinaryFunction::subtract,
                                               BinaryFunction::multiply,
                                               BinaryFunction::divide,
                                               BinaryFunction::negative_product};

/// Returns the exact result rounded once, which both the host and the CUDA implementation must
/// give.
float result_of(BinaryFunction function, float left, float right) {
  switch (function) {
    case BinaryFunction::add:
      return left + right;
    case BinaryFunction::subtract:
      return left - right;
    case BinaryFunction::multiply:
      return left * right;
    case BinaryFunction::divide:
      return left / right;
    case BinaryFunction::negative_product:
      return -(left * right);
  }
  return std::nanf("");
}

/// Pairs of shapes that take the vector path, its tail, the path without vectors, and each rank of
/// a broadcast plan.
std::pair<Shape, Shape> const kOperands[] = {
    {{}, {}},
    {{7}, {7}},
    {{1023}, {1}},
    {{}, {1025}},
    {{2, 3, 1024}, {2, 3, 1024}},
    {{33, 20}, {20}},
    {{33, 19}, {19}},
    {{1, 64}, {65, 64}},
    {{65, 64}, {65, 1}},
    {{67, 1}, {67, 5}},
    {{40, 1}, {1, 36}},
    {{5, 3, 8}, {5, 1, 8}},
    {{5, 1, 7}, {3, 1}},
    {{3, 1, 5, 4}, {7, 1, 4}},
    {{3, 1, 5, 1}, {1, 7, 1, 6}},
    {{2, 3, 4, 5}, {1, 3, 1, 5}},
    {{0, 4}, {4}},
    {{3, 0}, {3, 1}},
};

template <class Stream>
class BinaryTest : public KernelTest<Stream> {
 protected:
  /// Compares the result of binary() with result_of(). `offset` floats precede the first element of
  /// each buffer.
  void check(BinaryFunction function, Shape const& left, Shape const& right, std::size_t offset) {
    SCOPED_TRACE(fmt::format("{} and {}, offset {}", left, right, offset));
    auto const plan = plan_broadcast(left, right);
    auto const skipped = static_cast<std::int64_t>(offset);
    auto const lefts = this->random.reals(left.count() + skipped, 0.5F, 3.0F);
    auto const rights = this->random.reals(right.count() + skipped, 0.5F, 3.0F);
    std::vector<float> expected;
    for (std::int64_t place = 0; place < plan.count; ++place) {
      auto rest = place;
      std::int64_t l = skipped;
      std::int64_t r = skipped;
      for (int d = plan.rank - 1; d >= 0; --d) {
        l += rest % plan.extents[d] * plan.left_strides[d];
        r += rest % plan.extents[d] * plan.right_strides[d];
        rest /= plan.extents[d];
      }
      expected.push_back(result_of(
          function, lefts[static_cast<std::size_t>(l)], rights[static_cast<std::size_t>(r)]));
    }
    auto const left_in = this->upload(lefts);
    auto const right_in = this->upload(rights);
    auto const output = this->guarded(plan.count, skipped);
    binary(this->stream(),
           {function, plan, left_in.data() + offset, right_in.data() + offset, output.data()});
    auto const actual = this->read(output);
    EXPECT_EQ(actual, expected);
  }
};
TYPED_TEST_SUITE(BinaryTest, StreamKinds, StreamKindName);

TYPED_TEST(BinaryTest, gives_the_exact_result_for_every_pair_of_shapes) {
  for (auto const& [left, right] : kOperands) {
    for (std::size_t const offset : {0U, 1U}) {
      this->check(BinaryFunction::subtract, left, right, offset);
      this->check(BinaryFunction::subtract, right, left, offset);
    }
  }
}

TYPED_TEST(BinaryTest, gives_the_exact_result_for_arrays_large_and_small) {
  for (auto const count : kManyFloats) {
    for (std::size_t const offset : {0U, 1U}) {
      this->check(BinaryFunction::subtract, {count}, {count}, offset);
      this->check(BinaryFunction::divide, {count}, {1}, offset);
    }
  }
  // Shapes of rows, columns and more dimensions, on both sides of 2^17 elements, which kernels
  // process by Quads and by floats.
  std::pair<Shape, Shape> const shapes[] = {
      {{256, 512}, {512}},
      {{257, 512}, {512}},
      {{512, 512}, {512, 1}},
      {{1025, 132}, {132}},
      {{1, 516}, {511, 1}},
      {{400, 333}, {333}},
      {{37, 1, 64, 8}, {9, 1, 8}},
      {{37, 9, 65, 8}, {9, 1, 8}},
      {{37, 1, 65, 8}, {9, 65, 1}},
  };
  for (auto const& [left, right] : shapes) {
    for (std::size_t const offset : {0U, 1U}) {
      this->check(BinaryFunction::subtract, left, right, offset);
      this->check(BinaryFunction::divide, right, left, offset);
    }
  }
}

TYPED_TEST(BinaryTest, knows_every_function) {
  for (auto const function : kBinaryFunctions) {
    this->check(function, {37, 8}, {37, 8}, 0);
    this->check(function, {37, 8}, {8}, 0);
    this->check(function, {3, 1, 5, 3}, {7, 1, 3}, 0);
  }
}

TYPED_TEST(BinaryTest, writes_over_an_operand_of_its_own_shape) {
  auto const lefts = this->random.reals(24);
  auto const rights = this->random.reals(4);
  auto const left = this->upload(lefts);
  auto const right = this->upload(rights);
  binary(
      this->stream(),
      {BinaryFunction::add, plan_broadcast({6, 4}, {4}), left.data(), right.data(), left.data()});
  std::vector<float> expected;
  for (std::size_t i = 0; i < lefts.size(); ++i) {
    expected.push_back(lefts[i] + rights[i % 4]);
  }
  EXPECT_EQ(this->read(left), expected);
}

TYPED_TEST(BinaryTest, large_arrays_are_written_over_as_small_ones_are) {
  constexpr std::int64_t kCount = 300'000;
  auto const lefts = this->random.reals(kCount);
  auto const rights = this->random.reals(kCount);
  auto const left = this->upload(lefts);
  auto const right = this->upload(rights);
  auto const plan = plan_broadcast({kCount}, {kCount});
  binary(this->stream(), {BinaryFunction::multiply, plan, left.data(), right.data(), right.data()});
  std::vector<float> expected;
  for (std::size_t i = 0; i < lefts.size(); ++i) {
    expected.push_back(lefts[i] * rights[i]);
  }
  EXPECT_EQ(this->read(right), expected);
}

/// The exact gradients of a product of two arrays, in double, which holds the product of two floats
/// without rounding.
struct ProductGradients {
  std::vector<float> left;
  std::vector<float> right;

  ProductGradients(std::vector<float> const& lefts,
                   std::vector<float> const& rights,
                   std::vector<float> const& gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      double const gradient = gradients[i];
      left.push_back(static_cast<float>(gradient * rights[i]));
      right.push_back(static_cast<float>(gradient * lefts[i]));
    }
  }
};

TYPED_TEST(BinaryTest, multiply_gradient_is_exact_also_unaligned) {
  std::vector<std::int64_t> counts{0, 1, 3, 4, 1023, 1024, 1025, 4099};
  counts.insert(counts.end(), std::begin(kManyFloats), std::end(kManyFloats));
  for (auto const count : counts) {
    // `shifted` is the number of the array that begins one float after an aligned address; -1 for
    // none.
    for (std::int64_t shifted = -1; shifted < 5; ++shifted) {
      SCOPED_TRACE(fmt::format("count {}, shifted {}", count, shifted));
      auto const offset = [&](std::int64_t array) { return std::int64_t{array == shifted}; };
      auto const behind = [&](std::int64_t array, std::vector<float> values) {
        values.insert(values.begin(), static_cast<std::size_t>(offset(array)), 0.0F);
        return this->upload(values);
      };
      auto const lefts = this->random.reals(count);
      auto const rights = this->random.reals(count);
      auto const gradients = this->random.reals(count);
      ProductGradients const expected(lefts, rights, gradients);
      auto const left = behind(0, lefts);
      auto const right = behind(1, rights);
      auto const gradient = behind(2, gradients);
      auto const left_gradient = this->guarded(count, offset(3));
      auto const right_gradient = this->guarded(count, offset(4));
      multiply_gradient(this->stream(),
                        {left.data() + offset(0),
                         right.data() + offset(1),
                         gradient.data() + offset(2),
                         left_gradient.data(),
                         right_gradient.data(),
                         count});
      EXPECT_EQ(this->read(left_gradient), expected.left);
      EXPECT_EQ(this->read(right_gradient), expected.right);
    }
  }
}

TYPED_TEST(BinaryTest, multiply_gradient_may_write_over_any_two_of_its_inputs) {
  for (std::int64_t const count : {1025, 300'001}) {
    for (std::size_t l = 0; l < 3; ++l) {
      for (std::size_t r = 0; r < 3; ++r) {
        if (l == r) {
          continue;
        }
        SCOPED_TRACE(fmt::format("count {}, over inputs {} and {}", count, l, r));
        std::vector<float> values[3];
        std::vector<Buffer<float>> inputs;
        for (auto& of_input : values) {
          of_input = this->random.reals(count);
          inputs.push_back(this->upload(of_input));
        }
        ProductGradients const expected(values[0], values[1], values[2]);
        multiply_gradient(this->stream(),
                          {inputs[0].data(),
                           inputs[1].data(),
                           inputs[2].data(),
                           inputs[l].data(),
                           inputs[r].data(),
                           count});
        EXPECT_EQ(this->read(inputs[l]), expected.left);
        EXPECT_EQ(this->read(inputs[r]), expected.right);
      }
    }
  }
}

TYPED_TEST(BinaryTest, can_be_captured) {
  auto const values = this->random.reals(12);
  auto const input = this->upload(values);
  auto const output = this->floats(12);
  this->replay([&](auto stream) {
    binary(stream,
           {BinaryFunction::multiply,
            plan_broadcast({3, 4}, {3, 4}),
            input.data(),
            input.data(),
            output.data()});
  });
  std::vector<float> expected;
  for (auto const value : values) {
    expected.push_back(value * value);
  }
  EXPECT_EQ(this->read(output), expected);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
