// SPDX-License-Identifier: Apache-2.0
#include "elementwise/elementwise.hpp"

#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace msstream::ops::kernels::testing {
namespace {

/// Numbers of elements around the four floats of a vector access and around the edges of a thread
/// block.
constexpr std::int64_t kCounts[] = {0, 1, 3, 4, 5, 1023, 1024, 4099};
constexpr std::int64_t kBlockCounts[] = {0, 1, 2, 64, 65, 130};

void expect_close(std::vector<float> const& actual, std::vector<double> const& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double const bound = 1e-6 * std::abs(expected[i]) + 3e-7;
    if (!(std::abs(actual[i] - expected[i]) <= bound)) {  // also fails for NaN
      FAIL() << "element " << i << " is " << actual[i] << ", should be " << expected[i];
    }
  }
}

double logistic_of(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

template <class Stream>
class ElementwiseTest : public KernelTest<Stream> {
 protected:
  std::vector<float> reals(std::int64_t count) { return this->random.reals(count, -3.0F, 3.0F); }

  /// Expects issue(input, output, count) to write function(input[i]) in three cases: from one
  /// buffer to another, to an address that is not a multiple of 16 bytes, and in place.
  template <class Issue>
  void check_map(std::vector<float> const& values,
                 Issue const& issue,
                 std::function<double(double)> const& function) {
    auto const count = static_cast<std::int64_t>(values.size());
    SCOPED_TRACE(fmt::format("count {}", count));
    std::vector<double> expected(values.size());
    std::transform(values.begin(), values.end(), expected.begin(), function);
    auto const input = this->upload(values);
    auto const output = this->floats(count);
    auto const shifted = this->floats(count + 1);
    issue(input.data(), output.data(), count);
    issue(input.data(), shifted.data() + 1, count);
    expect_close(this->read(output), expected);
    auto behind_first = this->read(shifted);
    EXPECT_TRUE(std::isnan(behind_first.front()));
    behind_first.erase(behind_first.begin());
    expect_close(behind_first, expected);
    issue(input.data(), input.data(), count);
    expect_close(this->read(input), expected);
  }

  struct Columns {
    std::vector<std::vector<float>> values;  ///< the elements of each block, [rows, width]
    std::vector<std::int64_t> widths;
    std::vector<float> packed;
    std::int64_t rows;
  };
  /// Returns random column blocks whose widths are multiples of `unit`, at most 5 units.
  Columns random_columns(std::int64_t block_count, std::int64_t rows, std::int64_t unit) {
    Columns out;
    out.rows = rows;
    for (std::int64_t k = 0; k < block_count; ++k) {
      out.widths.push_back(unit * this->random.integer(0, 5));
      out.values.push_back(reals(rows * out.widths.back()));
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::size_t k = 0; k < out.widths.size(); ++k) {
        auto const first = out.values[k].begin() + row * out.widths[k];
        out.packed.insert(out.packed.end(), first, first + out.widths[k]);
      }
    }
    return out;
  }
};
TYPED_TEST_SUITE(ElementwiseTest, StreamKinds, StreamKindName);

TYPED_TEST(ElementwiseTest, concat_lays_blocks_side_by_side) {
  for (auto const block_count : kBlockCounts) {
    for (std::int64_t const rows : {0, 1, 67}) {
      for (std::int64_t const unit : {1, 4}) {
        SCOPED_TRACE(
            fmt::format("{} blocks, {} rows, widths in units of {}", block_count, rows, unit));
        auto const columns = this->random_columns(block_count, rows, unit);
        std::vector<Buffer<float>> buffers;
        std::vector<ColumnBlock> blocks;
        for (std::size_t k = 0; k < columns.widths.size(); ++k) {
          buffers.push_back(this->upload(columns.values[k]));
          blocks.push_back({buffers.back().data(), columns.widths[k]});
        }
        auto const packed = this->floats(static_cast<std::int64_t>(columns.packed.size()));
        concat_columns(this->stream(), blocks, rows, packed.data());
        blocks.clear();  // the call must have copied the descriptions of the blocks
        EXPECT_EQ(this->read(packed), columns.packed);
      }
    }
  }
}

TYPED_TEST(ElementwiseTest, split_takes_blocks_apart_and_skips_those_without_data) {
  for (auto const block_count : kBlockCounts) {
    for (std::int64_t const rows : {0, 1, 67}) {
      for (std::int64_t const unit : {1, 4}) {
        SCOPED_TRACE(
            fmt::format("{} blocks, {} rows, widths in units of {}", block_count, rows, unit));
        auto const columns = this->random_columns(block_count, rows, unit);
        auto const is_skipped = [](std::size_t k) { return k % 5 == 3; };
        std::vector<Buffer<float>> buffers;
        std::vector<ColumnBlock> blocks;
        for (std::size_t k = 0; k < columns.widths.size(); ++k) {
          buffers.push_back(this->floats(rows * columns.widths[k]));
          blocks.push_back({is_skipped(k) ? nullptr : buffers.back().data(), columns.widths[k]});
        }
        auto const packed = this->upload(columns.packed);
        split_columns(this->stream(), packed.data(), blocks, rows);
        blocks.clear();  // the call must have copied the descriptions of the blocks
        for (std::size_t k = 0; k < buffers.size(); ++k) {
          if (!is_skipped(k)) {
            EXPECT_EQ(this->read(buffers[k]), columns.values[k]) << "block " << k;
          }
        }
      }
    }
  }
}

/// A reference for add() that rounds as the kernel does: in parts of 32 inputs, whose sums are
/// added in double, and to float after each launch of up to 64 inputs.
class SumOfInputs {
 public:
  void add(std::vector<float> const& input) {
    if (inputs_ % 32 == 0) {
      fold();
      part_ = input;
    } else {
      std::transform(input.begin(), input.end(), part_.begin(), part_.begin(), std::plus<>());
    }
    if (++inputs_ % 64 == 0) {
      fold();
      part_.clear();
      for (auto& sum : whole_) {
        sum = static_cast<double>(static_cast<float>(sum));
      }
    }
  }
  [[nodiscard]] std::vector<float> get() {
    fold();
    part_.clear();
    return {whole_.begin(), whole_.end()};
  }

 private:
  void fold() {
    whole_.resize(std::max(whole_.size(), part_.size()), 0.0);
    std::transform(part_.begin(), part_.end(), whole_.begin(), whole_.begin(), std::plus<>());
  }

  std::size_t inputs_ = 0;
  std::vector<float> part_;
  std::vector<double> whole_;
};

TYPED_TEST(ElementwiseTest, add_adds_in_the_order_of_the_inputs) {
  for (std::int64_t const input_count : {1, 2, 9, 32, 33, 64, 65, 96, 130}) {
    for (std::int64_t const count : {0, 1, 5, 2052}) {
      SCOPED_TRACE(fmt::format("{} inputs of {}", input_count, count));
      std::vector<Buffer<float>> buffers;
      std::vector<float const*> inputs;
      SumOfInputs sum;
      for (std::int64_t k = 0; k < input_count; ++k) {
        auto const values = this->reals(count);
        buffers.push_back(this->upload(values));
        inputs.push_back(buffers.back().data());
        sum.add(values);
      }
      auto const expected = sum.get();
      auto const output = this->floats(count);
      auto const shifted = this->floats(count + 1);
      add(this->stream(), inputs, output.data(), count);
      add(this->stream(), inputs, shifted.data() + 1, count);
      EXPECT_EQ(this->read(output), expected);
      auto const values = this->read(shifted);
      EXPECT_TRUE(std::isnan(values.front()));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), values.begin() + 1));

      // The sum is written in place, over an input that the first launch reads.
      auto const in_place = static_cast<std::size_t>(std::min<std::int64_t>(input_count, 64) - 1);
      add(this->stream(), inputs, buffers[in_place].data(), count);
      EXPECT_EQ(this->read(buffers[in_place]), expected);
    }
  }
}

TYPED_TEST(ElementwiseTest, add_of_large_arrays_agrees_with_double_also_unaligned) {
  for (std::size_t const input_count : {2, 4, 11}) {
    for (auto const count : kManyFloats) {
      for (std::int64_t const offset : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} inputs of {}, offset {}", input_count, count, offset));
        std::vector<Buffer<float>> buffers;
        std::vector<float const*> inputs;
        std::vector<double> expected(static_cast<std::size_t>(count), 0.0);
        for (std::size_t k = 0; k < input_count; ++k) {
          auto const values = this->reals(count);
          buffers.push_back(this->upload(values));
          inputs.push_back(buffers.back().data());
          std::transform(
              values.begin(), values.end(), expected.begin(), expected.begin(), std::plus<>());
        }
        auto const output = this->guarded(count, offset);
        add(this->stream(), inputs, output.data(), count);
        expect_within(this->read(output), expected, 5e-6);
        add(this->stream(), inputs, buffers.back().data(), count);
        expect_within(this->read(buffers.back()), expected, 5e-6);
      }
    }
  }
}

TYPED_TEST(ElementwiseTest, add_refuses_no_inputs_and_a_late_one_as_its_output) {
  auto const buffer = this->upload(std::vector{1.0F});
  auto const other = this->upload(std::vector{2.0F});
  std::vector<float const*> inputs;
  EXPECT_THROW(add(this->stream(), inputs, buffer.data(), 1), std::invalid_argument);
  inputs.assign(64, other.data());
  inputs.push_back(buffer.data());
  EXPECT_THROW(add(this->stream(), inputs, buffer.data(), 1), std::invalid_argument);
  EXPECT_EQ(this->read(buffer).front(), 1.0F);
}

TYPED_TEST(ElementwiseTest, scale_multiplies) {
  for (auto const count : kCounts) {
    float const factor = this->random.real();
    this->check_map(
        this->reals(count),
        [&](float* in, float* out, std::int64_t n) { scale(this->stream(), in, factor, out, n); },
        [&](double x) { return factor * x; });
  }
}

TYPED_TEST(ElementwiseTest, sigmoid_is_exact_and_does_not_overflow) {
  for (auto const count : kCounts) {
    auto values = this->random.reals(count, -20.0F, 20.0F);
    std::vector const extremes{0.0F, 100.0F, -100.0F, 1e4F, -1e4F};
    std::copy_n(extremes.begin(), std::min(values.size(), extremes.size()), values.begin());
    this->check_map(
        values,
        [&](float* in, float* out, std::int64_t n) { sigmoid(this->stream(), in, out, n); },
        logistic_of);
  }
}

TYPED_TEST(ElementwiseTest, sigmoid_keeps_the_relative_size_of_small_values) {
  auto const input = this->upload(std::vector{-60.0F});
  auto const output = this->floats(1);
  sigmoid(this->stream(), input.data(), output.data(), 1);
  EXPECT_NEAR(this->read(output).front() / std::exp(-60.0), 1.0, 1e-5);
}

TYPED_TEST(ElementwiseTest, sigmoid_gradient_is_computed_from_the_output) {
  for (auto const count : kCounts) {
    auto const output_values = this->random.reals(count, 0.0F, 1.0F);
    auto const output = this->upload(output_values);
    std::size_t i = 0;
    this->check_map(
        this->reals(count),
        [&](float* gradient, float* out, std::int64_t n) {
          sigmoid_gradient(this->stream(), output.data(), gradient, out, n);
        },
        [&](double gradient) {
          double const y = output_values[i++];
          return gradient * y * (1.0 - y);
        });
  }
}

TYPED_TEST(ElementwiseTest, scale_by_scalar_reads_the_scalar_on_the_device) {
  for (auto const count : kCounts) {
    float const upstream = this->random.real();
    auto const value = this->upload(std::vector{upstream});
    this->check_map(
        this->reals(count),
        [&](float* in, float* out, std::int64_t n) {
          scale_by_scalar(this->stream(), in, value.data(), 0.25F, out, n);
        },
        [&](double x) { return 0.25 * upstream * x; });
  }
}

TYPED_TEST(ElementwiseTest, broadcast_scalar_fills) {
  for (auto const count : kCounts) {
    float const upstream = this->random.real();
    auto const value = this->upload(std::vector{upstream});
    this->check_map(
        this->reals(count),
        [&](float*, float* out, std::int64_t n) {
          broadcast_scalar(this->stream(), value.data(), 0.25F, out, n);
        },
        [&](double) { return 0.25 * upstream; });
  }
}

TYPED_TEST(ElementwiseTest, reduce_sum_is_the_sum_with_the_same_bits_in_every_run_and_twin) {
  HostQueue queue;
  HostStream const host(queue);
  for (std::int64_t const count : {0, 1, 31, 1023, 1024, 1025, 4097, 65536, 65537, 300001}) {
    SCOPED_TRACE(fmt::format("count {}", count));
    auto const values = this->reals(count);
    double const factor = 1.0 / 3.0;
    double const magnitude = std::accumulate(
        values.begin(), values.end(), 0.0, [](double sum, float x) { return sum + std::abs(x); });
    double const expected = factor * std::accumulate(values.begin(), values.end(), 0.0);

    std::vector<std::byte> host_workspace(reduce_workspace_bytes(host, count));
    float host_sum = std::nanf("");
    reduce_sum(
        host, values.data(), count, static_cast<float>(factor), host_workspace.data(), &host_sum);
    queue.progress()->wait(queue.enqueued());

    auto const input = this->upload(values);
    for (int run = 0; run < 5; ++run) {
      auto const workspace = this->workspace(reduce_workspace_bytes(this->stream(), count));
      auto const output = this->floats(1);
      reduce_sum(this->stream(),
                 input.data(),
                 count,
                 static_cast<float>(factor),
                 workspace.data(),
                 output.data());
      float const sum = this->read(output).front();
      EXPECT_EQ(std::bit_cast<std::uint32_t>(sum), std::bit_cast<std::uint32_t>(host_sum));
      EXPECT_LE(std::abs(sum - expected), 1e-6 * magnitude);
    }
  }
}

TYPED_TEST(ElementwiseTest, one_chunk_of_a_sum_needs_no_workspace) {
  EXPECT_EQ(reduce_workspace_bytes(this->stream(), 65536), 0U);
  EXPECT_GE(reduce_workspace_bytes(this->stream(), 65537), 2 * sizeof(float));
}

TYPED_TEST(ElementwiseTest, bce_is_the_cross_entropy_even_of_extreme_logits) {
  for (auto const count : kCounts) {
    SCOPED_TRACE(fmt::format("count {}", count));
    auto logits = this->random.reals(count, -5.0F, 5.0F);
    std::vector<float> labels(logits.size());
    for (auto& label : labels) {
      label = static_cast<float>(this->random.integer(0, 4)) / 4.0F;
    }
    std::vector const extremes{100.0F, -100.0F, 1e4F, -1e4F, 0.0F};
    for (std::size_t i = 0; i < std::min(logits.size(), 2 * extremes.size()); ++i) {
      logits[i] = extremes[i / 2];
      labels[i] = static_cast<float>(i % 2);
    }
    std::vector<double> losses(logits.size());
    std::vector<double> gradients(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      double const x = logits[i];
      losses[i] = std::max(x, 0.0) - x * labels[i] + std::log1p(std::exp(-std::abs(x)));
      gradients[i] = logistic_of(x) - labels[i];
    }
    auto const logits_in = this->upload(logits);
    auto const labels_in = this->upload(labels);
    auto const losses_out = this->floats(count);
    auto const gradients_out = this->floats(count);
    element_losses(
        this->stream(),
        {logits_in.data(), labels_in.data(), losses_out.data(), gradients_out.data(), count});
    expect_close(this->read(losses_out), losses);
    expect_close(this->read(gradients_out), gradients);

    this->poison(losses_out);
    element_losses(this->stream(),
                   {logits_in.data(), labels_in.data(), losses_out.data(), nullptr, count});
    expect_close(this->read(losses_out), losses);
  }
}

TYPED_TEST(ElementwiseTest, a_captured_chain_gives_the_result_of_an_eager_one) {
  auto const values = this->reals(70000);
  auto const input = this->upload(values);
  auto const doubled = this->floats(70000);
  auto const sum = this->floats(1);
  auto const workspace = this->workspace(reduce_workspace_bytes(this->stream(), 70000));
  auto const issue = [&](auto stream) {
    float const* const inputs[] = {input.data(), input.data()};
    add(stream, inputs, doubled.data(), 70000);
    reduce_sum(stream, doubled.data(), 70000, 0.5F, workspace.data(), sum.data());
  };
  issue(this->stream());
  float const eager = this->read(sum).front();
  EXPECT_NEAR(eager, std::accumulate(values.begin(), values.end(), 0.0), 0.1);
  this->poison(doubled);
  this->poison(sum);
  this->replay(issue);
  EXPECT_EQ(this->read(sum).front(), eager);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
