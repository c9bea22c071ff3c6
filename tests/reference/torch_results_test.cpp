// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/checkpoint/safetensors.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/ops/segment.hpp>

#include <fmt/core.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

/// Compares operations with PyTorch's results for the same inputs. The script torch_results.py
/// writes the inputs and results to the file that MSSTREAM_TORCH_RESULTS names.
namespace msstream::testing {
namespace {

using ops::Bags;
using ops::Pooling;
using ops::SegmentReduction;
using ops::SegmentSemantics;

constexpr std::int64_t kWidths[] = {1, 3, 16, 33, 128};
constexpr std::pair<SegmentReduction, char const*> kReductions[] = {
    {SegmentReduction::sum, "sum"},
    {SegmentReduction::mean, "mean"},
    {SegmentReduction::max, "max"},
    {SegmentReduction::min, "min"},
    {SegmentReduction::prod, "prod"}};

/// Expects NaN where NaN is expected, the same infinity where an infinity is expected, and
/// otherwise values within the tolerance, relative to 1 and to the expected value.
void expect_like(Floats const& actual, Floats const& expected, double tolerance = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    bool const same = std::isnan(expected[i])   ? std::isnan(actual[i])
                      : std::isinf(expected[i]) ? actual[i] == expected[i]
                                                : std::abs(actual[i] - expected[i]) <=
                                                      tolerance * (1 + std::abs(expected[i]));
    ASSERT_TRUE(same) << "element " << i << " is " << actual[i] << ", not " << expected[i];
  }
}

template <class R>
class TorchResultsTest : public OpsTest<R> {
 protected:
  void SetUp() override {
    OpsTest<R>::SetUp();
    char const* const path = std::getenv("MSSTREAM_TORCH_RESULTS");
    if (!this->IsSkipped() && path == nullptr) {
      GTEST_SKIP() << "MSSTREAM_TORCH_RESULTS names no file of torch_results.py";
    }
    if (!this->IsSkipped()) {
      file_.emplace(path);
    }
  }

  /// Reads the values of PyTorch's tensor `name` from the file.
  template <Element T>
  std::vector<T> values(std::string const& name) const {
    return file_->values<T>(name, file_->tensor(name).shape);
  }
  Floats floats(std::string const& name) const {
    switch (file_->tensor(name).dtype.value()) {
      case DType::float16:
        return widened(values<float16>(name));
      case DType::bfloat16:
        return widened(values<bfloat16>(name));
      default:
        return values<float>(name);
    }
  }
  /// Copies PyTorch's tensor `name` from the file to the device.
  template <Element T>
  Tensor<T, R> tensor(std::string const& name) const {
    auto const& shape = file_->tensor(name).shape;
    return this->put(values<T>(name), Shape(std::span<std::int64_t const>(shape)));
  }

  template <Element T>
  void expect_embedding(std::string const& dtype, std::string const& mode, double tolerance) {
    for (auto const width : kWidths) {
      auto const name = fmt::format("embedding/{}/{}/{}/", dtype, mode, width);
      SCOPED_TRACE(name);
      auto const table = this->template tensor<T>(name + "table");
      Bags<R> bags(this->template tensor<std::int64_t>(name + "ids"),
                   this->template tensor<std::int64_t>(name + "offsets"));
      if (mode == "weighted") {
        bags.weights = this->template tensor<float>(name + "weights");
      }
      auto const pooling = mode == "mean"  ? Pooling::mean
                           : mode == "max" ? Pooling::max
                                           : Pooling::sum;
      ops::LookupOptions<R> options{.pooling = pooling};
      if (pooling == Pooling::max) {
        options.argmax.emplace(this->device(), Shape{bags.bags(), width});
      }
      auto const pooled = ops::embedding_lookup(table, bags, options);
      expect_like(to_host(pooled), floats(name + "pooled"), tolerance);

      auto const rows = table.shape()[0];
      auto const incoming = this->template tensor<T>(name + "incoming");
      auto const gradients = ops::embedding_gradient(
          bags, ops::deduplicate(bags, rows), rows, pooling, incoming, options.argmax);
      expect_like(dense(gradients, rows, width), floats(name + "outgoing"), tolerance);
    }
  }

 private:
  template <class T>
  static Floats widened(std::vector<T> const& values) {
    Floats out;
    for (auto const value : values) {
      out.push_back(to_float(value));
    }
    return out;
  }
  static Floats dense(ops::RowGradients<R> const& gradients,
                      std::int64_t rows,
                      std::int64_t width) {
    Floats out(static_cast<std::size_t>(rows * width));
    auto const ids = to_host(gradients.ids);
    auto const values = to_host(gradients.values);
    for (std::int64_t u = 0; u < to_host(gradients.count).front(); ++u) {
      std::copy_n(values.begin() + u * width,
                  width,
                  out.begin() + ids[static_cast<std::size_t>(u)] * width);
    }
    return out;
  }

  std::optional<checkpoint::SafetensorsFile> file_;
};
TYPED_TEST_SUITE(TorchResultsTest, Runtimes, RuntimeNames);

TYPED_TEST(TorchResultsTest, embedding_bags_and_their_gradients) {
  for (auto const* const mode : {"sum", "mean", "max", "weighted"}) {
    this->template expect_embedding<float>("float32", mode, 1e-5);
    // For half precision the tolerances are larger: PyTorch rounds outputs and gradients to the
    // table's type.
    this->template expect_embedding<float16>("float16", mode, 4e-3);
    if (std::string(mode) != "max") {
      this->template expect_embedding<bfloat16>("bfloat16", mode, 3e-2);
    }
  }
}

TYPED_TEST(TorchResultsTest, segments_and_their_gradients) {
  for (auto const& [reduction, reduction_name] : kReductions) {
    for (auto const width : kWidths) {
      auto const name = fmt::format("segment/{}/{}/", reduction_name, width);
      SCOPED_TRACE(name);
      auto const values = this->template tensor<float>(name + "values");
      auto const offsets = this->template tensor<std::int64_t>(name + "offsets");
      auto const reduced =
          ops::segment_reduce(values, offsets, reduction, {.semantics = SegmentSemantics::torch});
      expect_like(to_host(reduced), this->floats(name + "reduced"));
      auto const gradient =
          ops::segment_reduce_gradient(this->template tensor<float>(name + "incoming"),
                                       offsets,
                                       ops::SegmentForward<TypeParam>(values, reduced),
                                       reduction);
      expect_like(to_host(gradient), this->floats(name + "outgoing"));
    }
  }
}

TYPED_TEST(TorchResultsTest, unsorted_segments) {
  for (auto const& [reduction, reduction_name] : kReductions) {
    for (auto const width : kWidths) {
      auto const name = fmt::format("unsorted/{}/{}/", reduction_name, width);
      SCOPED_TRACE(name);
      auto const values = this->template tensor<float>(name + "values");
      auto const ids = this->template tensor<std::int64_t>(name + "ids");
      auto const counts = this->template values<std::int64_t>(name + "counts");
      auto expected = this->floats(name + "reduced");
      auto const segments = static_cast<std::int64_t>(counts.size());
      auto found = to_host(
          ops::segment_reduce(values, {ids, segments, ops::SegmentIds::unsorted}, reduction));
      for (std::size_t s = 0; s < counts.size(); ++s) {
        if (counts[s] == 0) {  // scatter_reduce has no value for empty segments
          auto const first = s * static_cast<std::size_t>(width);
          std::fill_n(found.begin() + static_cast<std::ptrdiff_t>(first), width, 0.0F);
          std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(first), width, 0.0F);
        }
      }
      expect_like(found, expected);
    }
  }
}

TYPED_TEST(TorchResultsTest, distinct_ids) {
  auto const unique = ops::unique(this->template tensor<std::int64_t>("unique/ids"));
  auto const count = to_host(unique.count).front();
  EXPECT_EQ(to_host(unique.values.rows(0, count)),
            this->template values<std::int64_t>("unique/values"));
  EXPECT_EQ(to_host(unique.counts.rows(0, count)),
            this->template values<std::int64_t>("unique/counts"));
  EXPECT_EQ(to_host(unique.inverse), this->template values<std::int64_t>("unique/inverse"));
}

TYPED_TEST(TorchResultsTest, largest_of_rows) {
  auto const largest = ops::top_k(this->template tensor<float>("top_k/rows"), 20);
  expect_like(to_host(largest.values), this->floats("top_k/values"), 0);
  EXPECT_EQ(to_host(largest.indices), this->template values<std::int64_t>("top_k/indices"));
}

TYPED_TEST(TorchResultsTest, softmax_of_segments) {
  auto const offsets = this->template tensor<std::int64_t>("jagged_softmax/offsets");
  auto const softmax =
      ops::jagged_softmax(this->template tensor<float>("jagged_softmax/values"), offsets);
  expect_like(to_host(softmax), this->floats("jagged_softmax/softmax"));
  auto const gradient = ops::jagged_softmax_gradient(
      softmax, this->template tensor<float>("jagged_softmax/incoming"), offsets);
  expect_like(to_host(gradient), this->floats("jagged_softmax/outgoing"));
}

}  // namespace
}  // namespace msstream::testing
