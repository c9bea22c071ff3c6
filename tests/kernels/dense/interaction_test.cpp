// SPDX-License-Identifier: Apache-2.0
#include "dense/interaction.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <cmath>

namespace msstream::ops::kernels::testing {
namespace {

struct InteractionSizes {
  std::int64_t batch;
  std::int64_t features;
  std::int64_t width;
};
/// Sizes that take each path: rows of whole Quads and others, several samples per block and one,
/// several rounds of tiles, and vectors that do not fit into shared memory.
constexpr InteractionSizes kInteractions[] = {
    {0, 3, 4},    {1, 0, 5},   {3, 0, 0},    {2, 3, 0},   {1, 1, 1},     {5, 1, 3},
    {33, 2, 4},   {31, 8, 16}, {127, 8, 33}, {9, 26, 64}, {4, 26, 63},   {7, 32, 128},
    {3, 31, 127}, {2, 64, 8},  {2, 100, 4},  {3, 99, 40}, {1, 200, 100}, {2, 12, 1025},
    {4097, 3, 4}, {2, 3, 37},  {13, 27, 20}};

template <class Stream>
class InteractionTest : public KernelTest<Stream> {
 protected:
  struct Problem {
    std::vector<float> dense;
    std::vector<float> embeddings;
    std::int64_t outputs;
  };
  Problem problem(InteractionSizes const& sizes) {
    return {this->random.reals(sizes.batch * sizes.width),
            this->random.reals(sizes.batch * sizes.features * sizes.width),
            sizes.batch * (sizes.width + pairs_of(sizes.features + 1))};
  }
  static float const* vector_of(InteractionSizes const& sizes,
                                Problem const& problem,
                                std::int64_t sample,
                                std::int64_t vector) {
    return vector == 0
               ? problem.dense.data() + sample * sizes.width
               : problem.embeddings.data() + (sample * sizes.features + vector - 1) * sizes.width;
  }
  /// Expects elements within the rounding errors of a float32 sum whose terms have magnitudes that
  /// add up to the given numbers.
  static void expect_sums(std::vector<float> const& actual,
                          std::vector<double> const& expected,
                          std::vector<double> const& magnitudes,
                          std::int64_t terms) {
    ASSERT_EQ(actual.size(), expected.size());
    double const unit = std::ldexp(1.0, -24) * (40.0 + static_cast<double>(terms) / 32);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_TRUE(std::abs(actual[i] - expected[i]) <= unit * magnitudes[i])
          << "element " << i << " is " << actual[i] << ", not " << expected[i];
    }
  }
};
TYPED_TEST_SUITE(InteractionTest, StreamKinds, StreamKindName);

TYPED_TEST(InteractionTest, products_agree_with_double) {
  for (auto const& sizes : kInteractions) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", sizes.batch, sizes.features, sizes.width));
    auto const problem = this->problem(sizes);
    auto const dense = this->upload(problem.dense);
    auto const embeddings = this->upload(problem.embeddings);
    auto const output = this->guarded(problem.outputs);
    dot_interaction(
        this->stream(),
        {dense.data(), embeddings.data(), output.data(), sizes.batch, sizes.features, sizes.width});
    std::vector<double> expected;
    std::vector<double> magnitudes;
    for (std::int64_t s = 0; s < sizes.batch; ++s) {
      for (std::int64_t c = 0; c < sizes.width; ++c) {
        expected.push_back(problem.dense[static_cast<std::size_t>(s * sizes.width + c)]);
        magnitudes.push_back(0.0);  // copied exactly
      }
      for (std::int64_t i = 0; i <= sizes.features; ++i) {
        for (std::int64_t j = 0; j < i; ++j) {
          auto const* const left = this->vector_of(sizes, problem, s, i);
          auto const* const right = this->vector_of(sizes, problem, s, j);
          double sum = 0;
          double magnitude = 0;
          for (std::int64_t c = 0; c < sizes.width; ++c) {
            double const term = double{left[c]} * right[c];
            sum += term;
            magnitude += std::abs(term);
          }
          expected.push_back(sum);
          magnitudes.push_back(magnitude);
        }
      }
    }
    this->expect_sums(this->read(output), expected, magnitudes, sizes.width);
  }
}

TYPED_TEST(InteractionTest, gradients_agree_with_double) {
  for (auto const& sizes : kInteractions) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", sizes.batch, sizes.features, sizes.width));
    auto const problem = this->problem(sizes);
    auto const gradients = this->random.reals(problem.outputs);
    auto const dense = this->upload(problem.dense);
    auto const embeddings = this->upload(problem.embeddings);
    auto const gradient = this->upload(gradients);
    auto const dense_gradient = this->guarded(sizes.batch * sizes.width);
    auto const embeddings_gradient = this->guarded(sizes.batch * sizes.features * sizes.width);
    dot_interaction_gradient(this->stream(),
                             {dense.data(),
                              embeddings.data(),
                              gradient.data(),
                              dense_gradient.data(),
                              embeddings_gradient.data(),
                              sizes.batch,
                              sizes.features,
                              sizes.width});
    std::vector<double> expected[2];
    std::vector<double> magnitudes[2];
    auto const output_width = sizes.width + pairs_of(sizes.features + 1);
    for (std::int64_t s = 0; s < sizes.batch; ++s) {
      auto const* const of_sample = gradients.data() + s * output_width;
      for (std::int64_t i = 0; i <= sizes.features; ++i) {
        for (std::int64_t c = 0; c < sizes.width; ++c) {
          double sum = i == 0 ? of_sample[c] : 0.0;
          double magnitude = std::abs(sum);
          for (std::int64_t j = 0; j <= sizes.features; ++j) {
            if (j != i) {
              auto const pair = i > j ? pair_number(i, j) : pair_number(j, i);
              double const term =
                  double{of_sample[sizes.width + pair]} * this->vector_of(sizes, problem, s, j)[c];
              sum += term;
              magnitude += std::abs(term);
            }
          }
          expected[i > 0].push_back(sum);
          magnitudes[i > 0].push_back(magnitude);
        }
      }
    }
    this->expect_sums(this->read(dense_gradient), expected[0], magnitudes[0], sizes.features);
    this->expect_sums(this->read(embeddings_gradient), expected[1], magnitudes[1], sizes.features);
  }
}

TYPED_TEST(InteractionTest, computes_the_gradient_that_is_wanted) {
  InteractionSizes const sizes{5, 4, 8};
  auto const problem = this->problem(sizes);
  auto const dense = this->upload(problem.dense);
  auto const embeddings = this->upload(problem.embeddings);
  auto const gradient = this->upload(this->random.reals(problem.outputs));
  auto const issue = [&](float* of_dense, float* of_embeddings) {
    dot_interaction_gradient(this->stream(),
                             {dense.data(),
                              embeddings.data(),
                              gradient.data(),
                              of_dense,
                              of_embeddings,
                              sizes.batch,
                              sizes.features,
                              sizes.width});
  };
  auto const both_dense = this->floats(5 * 8);
  auto const both_embeddings = this->floats(5 * 4 * 8);
  auto const one_dense = this->floats(5 * 8);
  auto const one_embeddings = this->floats(5 * 4 * 8);
  issue(both_dense.data(), both_embeddings.data());
  issue(one_dense.data(), nullptr);
  issue(nullptr, one_embeddings.data());
  EXPECT_EQ(this->read(one_dense), this->read(both_dense));
  EXPECT_EQ(this->read(one_embeddings), this->read(both_embeddings));
}

TYPED_TEST(InteractionTest, an_infinite_element_does_not_enter_its_own_gradient) {
  for (auto const& sizes : kInteractions) {
    auto problem = this->problem(sizes);
    if (sizes.batch == 0 || sizes.width == 0 || sizes.features == 0) {
      continue;
    }
    auto const vectors = sizes.features + 1;
    for (std::int64_t const infinite : {std::int64_t{0}, sizes.features / 2, sizes.features}) {
      SCOPED_TRACE(fmt::format("vector {} of {}, {} columns", infinite, vectors, sizes.width));
      auto of = problem;
      (infinite == 0 ? of.dense[0]
                     : of.embeddings[static_cast<std::size_t>((infinite - 1) * sizes.width)]) =
          INFINITY;
      auto const dense = this->upload(of.dense);
      auto const embeddings = this->upload(of.embeddings);
      auto const gradient = this->upload(this->random.reals(of.outputs, 0.5F, 1.0F));
      auto const dense_gradient = this->guarded(sizes.batch * sizes.width);
      auto const embeddings_gradient = this->guarded(sizes.batch * sizes.features * sizes.width);
      dot_interaction_gradient(this->stream(),
                               {dense.data(),
                                embeddings.data(),
                                gradient.data(),
                                dense_gradient.data(),
                                embeddings_gradient.data(),
                                sizes.batch,
                                sizes.features,
                                sizes.width});
      auto const of_dense = this->read(dense_gradient);
      auto const of_embeddings = this->read(embeddings_gradient);
      for (std::int64_t v = 0; v < vectors; ++v) {
        auto const found =
            v == 0 ? of_dense[0] : of_embeddings[static_cast<std::size_t>((v - 1) * sizes.width)];
        if (v == infinite) {
          ASSERT_TRUE(std::isfinite(found)) << "vector " << v;
        } else {
          ASSERT_EQ(found, INFINITY) << "vector " << v;
        }
      }
    }
  }
}

TYPED_TEST(InteractionTest, samples_do_not_depend_on_others_and_unaligned_rows_give_equal_bits) {
  InteractionSizes const sizes{7, 26, 16};
  auto const problem = this->problem(sizes);
  auto const run = [&](std::int64_t first, std::int64_t batch, std::int64_t shift) {
    auto const shifted = [&](std::vector<float> const& all, std::int64_t per_sample) {
      std::vector<float> part(static_cast<std::size_t>(shift), 0.0F);
      part.insert(
          part.end(), all.begin() + first * per_sample, all.begin() + (first + batch) * per_sample);
      return this->upload(part);
    };
    auto const dense = shifted(problem.dense, sizes.width);
    auto const embeddings = shifted(problem.embeddings, sizes.features * sizes.width);
    auto const output = this->floats(batch * (sizes.width + pairs_of(sizes.features + 1)));
    dot_interaction(this->stream(),
                    {dense.data() + shift,
                     embeddings.data() + shift,
                     output.data(),
                     batch,
                     sizes.features,
                     sizes.width});
    return this->read(output);
  };
  auto const whole = run(0, 7, 0);
  EXPECT_EQ(run(0, 7, 1), whole);
  auto const last = run(6, 1, 0);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), whole.end() - std::ssize(last)));
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
