// SPDX-License-Identifier: Apache-2.0
#include "dense/factorization_machine.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class FactorizationMachineKernelTest : public KernelTest<Stream> {
 protected:
  template <class T>
  void expect_equal_bits(std::int64_t batch, std::int64_t features, std::int64_t width) {
    auto const count = batch * features * width;
    std::vector<T> values;
    for (float const value : this->random.reals(count)) {
      values.push_back(from_float<T>(value));
    }
    std::vector<T> of_output;
    for (float const value : this->random.reals(batch)) {
      of_output.push_back(from_float<T>(value));
    }
    auto const dy = this->upload(of_output);
    std::vector<T> first_term;
    std::vector<T> first_gradient;
    for (std::int64_t offset = 0; offset < 9; ++offset) {
      SCOPED_TRACE(fmt::format("{} x {} x {} from {}", batch, features, width, offset));
      std::vector<T> moved(static_cast<std::size_t>(offset), from_float<T>(1e4F));
      moved.insert(moved.end(), values.begin(), values.end());
      auto const x = this->upload(moved).slice(offset, count);
      auto const term = this->template poisoned<T>(batch);
      auto const gradient = this->template poisoned<T>(offset + count + kGuard);
      factorization_machine(this->stream(),
                            {.embeddings = x.data(),
                             .output = term.data(),
                             .batch = batch,
                             .features = features,
                             .width = width,
                             .dtype = dtype_of<T>});
      factorization_machine_gradient(this->stream(),
                                     {.embeddings = x.data(),
                                      .output_gradient = dy.data(),
                                      .input_gradient = gradient.data() + offset,
                                      .batch = batch,
                                      .features = features,
                                      .width = width,
                                      .dtype = dtype_of<T>});
      auto const terms = this->read(term);
      auto const all = this->read(gradient);
      std::vector<T> const gradients(all.begin() + offset, all.begin() + offset + count);
      for (std::int64_t i = 0; i < offset + count + kGuard; ++i) {
        bool const is_written = i >= offset && i < offset + count;
        ASSERT_NE(std::isnan(to_float(all[static_cast<std::size_t>(i)])), is_written) << i;
      }
      if (offset == 0) {
        first_term = terms;
        first_gradient = gradients;
      }
      expect_same(terms, first_term);
      expect_same(gradients, first_gradient);
    }
  }

 private:
  static constexpr std::int64_t kGuard = 40;

  template <class T>
  static void expect_same(std::vector<T> const& found, std::vector<T> const& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(to_float(found[i]), to_float(expected[i])) << i;
    }
  }
};
TYPED_TEST_SUITE(FactorizationMachineKernelTest, StreamKinds, StreamKindName);

// The width, the number of features and the address choose between kernels on a GPU.
TYPED_TEST(FactorizationMachineKernelTest, vectors_at_any_address_give_equal_bits) {
  for (auto const& [batch, features, width] : {std::array{1, 3, 1},
                                               {2, 2, 3},
                                               {31, 26, 16},
                                               {5, 31, 100},
                                               {2, 32, 128},
                                               {2, 33, 129},
                                               {3, 65, 12},
                                               {1, 4, 1000}}) {
    this->template expect_equal_bits<float>(batch, features, width);
    this->template expect_equal_bits<float16>(batch, features, width);
    this->template expect_equal_bits<bfloat16>(batch, features, width);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
