// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace msstream::testing {
namespace {

using ops::Pooling;

template <class R>
class DifferentiableOpsTest : public GradientTest<R> {};
TYPED_TEST_SUITE(DifferentiableOpsTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableOpsTest, loss) {
  this->expect_gradient(
      {7, 3}, [](auto&, auto const& x) { return x; }, [](Doubles const& x) { return x; });
}

TYPED_TEST(DifferentiableOpsTest, losses_of_elements) {
  auto const labels = this->random.reals(6, 0.0F, 1.0F);
  this->expect_gradient(
      {3, 2},
      [&](auto& tape, auto const& x) {
        return ops::bce_with_logits(tape, x, this->put(labels, {3, 2}));
      },
      [&](Doubles x) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] = TestFixture::loss({x[i]}, {labels[i]});
        }
        return x;
      });
}

TYPED_TEST(DifferentiableOpsTest, scale_and_sigmoid) {
  auto const each = [](auto function) {
    return [function](Doubles x) {
      std::ranges::transform(x, x.begin(), function);
      return x;
    };
  };
  this->expect_gradient(
      {5, 4},
      [](auto& tape, auto const& x) { return ops::scale(tape, x, -1.75F); },
      each([](double x) { return -1.75 * x; }));
  this->expect_gradient(
      {5, 4}, [](auto& tape, auto const& x) { return ops::sigmoid(tape, x); }, each([](double x) {
        return 1 / (1 + std::exp(-x));
      }));
}

TYPED_TEST(DifferentiableOpsTest, sum_and_mean) {
  this->expect_gradient(
      {5, 4},
      [](auto& tape, auto const& x) { return ops::sum(tape, x); },
      [](Doubles const& x) { return Doubles{std::accumulate(x.begin(), x.end(), 0.0)}; });
  this->expect_gradient(
      {5, 4},
      [](auto& tape, auto const& x) { return ops::mean(tape, x); },
      [](Doubles const& x) { return Doubles{std::accumulate(x.begin(), x.end(), 0.0) / 20}; });
}

TYPED_TEST(DifferentiableOpsTest, add_of_a_tensor_that_stands_twice_and_another) {
  auto const other = this->random.reals(6);
  this->expect_gradient(
      {6},
      [&](auto& tape, auto const& x) {
        return ops::add(tape, std::vector{x, this->put(other, {6}), x});
      },
      [&](Doubles x) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] = 2 * x[i] + other[i];
        }
        return x;
      });
}

TYPED_TEST(DifferentiableOpsTest, concat_of_a_tensor_that_stands_twice_and_another) {
  auto const other = this->random.reals(4);
  this->expect_gradient(
      {4, 2},
      [&](auto& tape, auto const& x) {
        return ops::concat(tape, std::vector{x, this->put(other, {4, 1}), x});
      },
      [&](Doubles const& x) {
        Doubles packed;
        for (std::size_t row = 0; row < 4; ++row) {
          packed.insert(packed.end(),
                        {x[2 * row], x[2 * row + 1], other[row], x[2 * row], x[2 * row + 1]});
        }
        return packed;
      });
}

/// Computes gelu_tanh in double.
double gelu_reference(double x) {
  constexpr double kSlope = 0.79788456080286536;  // sqrt(2 / π)
  return 0.5 * x * (1 + std::tanh(kSlope * (x + 0.044715 * x * x * x)));
}

/// Computes a dense layer in double: activation(input · weight + bias).
Doubles dense_reference(Doubles const& input,
                        Doubles const& weight,
                        Doubles const& bias,
                        ops::Activation activation) {
  std::size_t const outputs = bias.size();
  std::size_t const inputs = weight.size() / outputs;
  Doubles result;
  for (std::size_t row = 0; row < input.size() / inputs; ++row) {
    for (std::size_t column = 0; column < outputs; ++column) {
      double sum = bias[column];
      for (std::size_t k = 0; k < inputs; ++k) {
        sum += input[row * inputs + k] * weight[k * outputs + column];
      }
      result.push_back(activation == ops::Activation::relu        ? std::max(sum, 0.0)
                       : activation == ops::Activation::gelu_tanh ? gelu_reference(sum)
                                                                  : sum);
    }
  }
  return result;
}

/// Computes factor * op(left) · op(right) in double. Each operand is one matrix or a batch of
/// matrices.
Doubles matmul_reference(Doubles const& left,
                         Shape const& left_shape,
                         Doubles const& right,
                         Shape const& right_shape,
                         ops::MatmulOptions const& options) {
  auto const extent = [](Shape const& shape, std::size_t from_back) {
    return static_cast<std::size_t>(shape[shape.rank() - from_back]);
  };
  auto const batch = static_cast<std::size_t>(std::max(
      left_shape.rank() == 3 ? left_shape[0] : 1, right_shape.rank() == 3 ? right_shape[0] : 1));
  auto const rows = extent(left_shape, options.transpose_left ? 1 : 2);
  auto const inner = extent(left_shape, options.transpose_left ? 2 : 1);
  auto const columns = extent(right_shape, options.transpose_right ? 2 : 1);
  Doubles product;
  for (std::size_t b = 0; b < batch; ++b) {
    auto const l =
        left.begin() + static_cast<std::ptrdiff_t>(left_shape.rank() == 3 ? b * rows * inner : 0);
    auto const r = right.begin() +
                   static_cast<std::ptrdiff_t>(right_shape.rank() == 3 ? b * inner * columns : 0);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        double sum = 0;
        for (std::size_t k = 0; k < inner; ++k) {
          sum += l[static_cast<std::ptrdiff_t>(options.transpose_left ? k * rows + row
                                                                      : row * inner + k)] *
                 r[static_cast<std::ptrdiff_t>(options.transpose_right ? column * inner + k
                                                                       : k * columns + column)];
        }
        product.push_back(options.factor * sum);
      }
    }
  }
  return product;
}

TYPED_TEST(DifferentiableOpsTest, matmul_of_either_side_however_it_lies) {
  for (int const flags : {0, 1, 2, 3}) {
    ops::MatmulOptions const options{
        .transpose_left = (flags & 1) != 0, .transpose_right = (flags & 2) != 0, .factor = 0.75F};
    for (auto const& [left_batch, right_batch] :
         {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
      SCOPED_TRACE(fmt::format("transposed {}, batches {}{}", flags, left_batch, right_batch));
      auto const shaped = [](bool batch, std::int64_t rows, std::int64_t columns, bool swapped) {
        if (swapped) {
          std::swap(rows, columns);
        }
        return batch ? Shape{3, rows, columns} : Shape{rows, columns};
      };
      auto const left = shaped(left_batch, 4, 2, options.transpose_left);
      auto const right = shaped(right_batch, 2, 5, options.transpose_right);
      auto const other_left = this->random.reals(left.count());
      auto const other_right = this->random.reals(right.count());
      this->expect_gradient(
          left,
          [&](auto& tape, auto const& x) {
            return ops::matmul(tape, x, this->put(other_right, right), options);
          },
          [&](Doubles const& x) {
            return matmul_reference(x, left, to_doubles(other_right), right, options);
          });
      this->expect_gradient(
          right,
          [&](auto& tape, auto const& x) {
            return ops::matmul(tape, this->put(other_left, left), x, options);
          },
          [&](Doubles const& x) {
            return matmul_reference(to_doubles(other_left), left, x, right, options);
          });
    }
  }
}

/// Computes the mixture of two experts [2, batch, width] by one gate with logits [batch, 2], in
/// double.
Doubles mixture_reference(Doubles const& experts, Doubles const& logits) {
  auto const batch = logits.size() / 2;
  auto const width = experts.size() / 2 / batch;
  Doubles output;
  for (std::size_t row = 0; row < batch; ++row) {
    double const first = 1 / (1 + std::exp(logits[2 * row + 1] - logits[2 * row]));
    for (std::size_t column = 0; column < width; ++column) {
      auto const place = row * width + column;
      output.push_back(first * experts[place] + (1 - first) * experts[batch * width + place]);
    }
  }
  return output;
}

TYPED_TEST(DifferentiableOpsTest, mix_experts_by_experts_and_by_logits) {
  constexpr std::int64_t kBatch = 4;
  Shape const experts{2, kBatch, 3};
  Shape const logits{kBatch, 2};
  auto const other_experts = this->random.reals(experts.count());
  auto const other_logits = this->random.reals(logits.count());
  auto const mix = [](auto& tape, auto const& of, auto const& by) {
    return ops::mix_experts(tape, std::vector{of}, by, {{0, 1}});
  };
  this->expect_gradient(
      experts,
      [&](auto& tape, auto const& x) { return mix(tape, x, this->put(other_logits, logits)); },
      [&](Doubles const& x) { return mixture_reference(x, to_doubles(other_logits)); });
  this->expect_gradient(
      logits,
      [&](auto& tape, auto const& x) { return mix(tape, this->put(other_experts, experts), x); },
      [&](Doubles const& x) { return mixture_reference(to_doubles(other_experts), x); });
}

TYPED_TEST(DifferentiableOpsTest, dense_by_each_of_its_inputs) {
  // The signs of the values keep all inputs of relu away from 0, where relu has no derivative.
  using ops::Activation;
  for (auto const& [shift, activation] : {std::pair{0.0F, Activation::none},
                                          {0.0F, Activation::gelu_tanh},
                                          {4.0F, Activation::relu},
                                          {-4.0F, Activation::relu}}) {
    auto const input = this->random.reals(5 * 3);
    auto const weight = this->random.reals(3 * 4);
    Floats bias = this->random.reals(4, -0.5F, 0.5F);
    for (std::size_t i = 0; i < bias.size(); ++i) {
      bias[i] += i % 2 == 0 ? shift : -shift;
    }
    auto const x = to_doubles(input);
    auto const w = to_doubles(weight);
    auto const b = to_doubles(bias);
    this->expect_gradient(
        {5, 3},
        [&](auto& tape, auto const& at) {
          return ops::dense(tape, at, this->put(weight, {3, 4}), this->put(bias), activation);
        },
        [&](Doubles const& at) { return dense_reference(at, w, b, activation); });
    this->expect_gradient(
        {3, 4},
        [&](auto& tape, auto const& at) {
          return ops::dense(tape, this->put(input, {5, 3}), at, this->put(bias), activation);
        },
        [&](Doubles const& at) { return dense_reference(x, at, b, activation); });
    this->expect_gradient(
        {4},
        [&](auto& tape, auto const& at) {
          auto const shifted = ops::add(tape, std::vector{at, this->put(bias)});
          return ops::dense(
              tape, this->put(input, {5, 3}), this->put(weight, {3, 4}), shifted, activation);
        },
        [&](Doubles at) {
          std::ranges::transform(at, b, at.begin(), std::plus());
          return dense_reference(x, w, at, activation);
        });
  }
}

TYPED_TEST(DifferentiableOpsTest, segment_reductions_with_rows_in_no_segment) {
  using ops::SegmentReduction;
  Integers const offsets = {0, 3, 3, 4, 7};
  Integers const sorted_ids = {0, 0, 0, 2, 3, 3, 3, 4, 9};
  Integers const unsorted_ids = {3, 0, 9, 0, -1, 2, 3, 1, 3};
  auto const reference = [](Doubles const& x, Integers const& ids, SegmentReduction reduction) {
    Doubles reduced(8, 0.0);
    for (std::int64_t s = 0; s < 4; ++s) {
      for (std::size_t column = 0; column < 2; ++column) {
        Doubles held;
        for (std::size_t i = 0; i < ids.size(); ++i) {
          if (ids[i] == s) {
            held.push_back(x[i * 2 + column]);
          }
        }
        auto& total = reduced[static_cast<std::size_t>(s) * 2 + column];
        auto const rows = static_cast<double>(held.size());
        if (reduction == SegmentReduction::prod) {
          total = std::accumulate(held.begin(), held.end(), 1.0, std::multiplies());
        } else if (!held.empty()) {
          auto const sum = std::accumulate(held.begin(), held.end(), 0.0);
          total = reduction == SegmentReduction::max     ? std::ranges::max(held)
                  : reduction == SegmentReduction::min   ? std::ranges::min(held)
                  : reduction == SegmentReduction::mean  ? sum / rows
                  : reduction == SegmentReduction::sqrtn ? sum / std::sqrt(rows)
                                                         : sum;
        }
      }
    }
    return reduced;
  };
  for (auto const reduction : {SegmentReduction::sum,
                               SegmentReduction::mean,
                               SegmentReduction::sqrtn,
                               SegmentReduction::max,
                               SegmentReduction::min,
                               SegmentReduction::prod}) {
    auto const by = [&](Integers const& ids) {
      return [&](Doubles const& x) { return reference(x, ids, reduction); };
    };
    this->expect_gradient(
        {9, 2},
        [&](auto& tape, auto const& x) {
          return ops::segment_reduce(tape, x, this->put(offsets), reduction);
        },
        by(sorted_ids));
    this->expect_gradient(
        {9, 2},
        [&](auto& tape, auto const& x) {
          return ops::segment_reduce(
              tape, x, {this->put(sorted_ids), 4, ops::SegmentIds::sorted}, reduction);
        },
        by(sorted_ids));
    this->expect_gradient(
        {9, 2},
        [&](auto& tape, auto const& x) {
          return ops::segment_reduce(
              tape, x, {this->put(unsorted_ids), 4, ops::SegmentIds::unsorted}, reduction);
        },
        by(unsorted_ids));
  }
}

/// Adds up the row-sparse gradients of a table's lookups to a dense gradient of the whole table.
template <Runtime R>
Floats whole_table(std::vector<typename GradientTape<R>::RowGradientPart> const& parts,
                   Shape const& shape) {
  auto const width = static_cast<std::size_t>(shape[1]);
  Floats gradient(static_cast<std::size_t>(shape.count()), 0.0F);
  for (auto const& part : parts) {
    auto const count = to_host(part.rows.count).front();
    auto const ids = to_host(part.rows.ids.rows(0, count));
    auto const values = to_host(part.rows.values.rows(0, count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      gradient.at(static_cast<std::size_t>(ids[i / width]) * width + i % width) += values[i];
    }
  }
  return gradient;
}

TYPED_TEST(DifferentiableOpsTest, embedding_lookup_fixed_and_jagged_with_bad_ids) {
  constexpr std::int64_t kRows = 6;
  constexpr std::size_t kWidth = 3;
  Integers const ids = {1, 5, 1, -1, 6, 0, 2, 2, 5, 4, 3, 3};
  for (auto const pooling : {Pooling::sum, Pooling::mean}) {
    for (bool const jagged : {false, true}) {
      Integers const offsets = jagged ? Integers{0, 3, 3, 5, 10} : Integers{0, 3, 6, 9, 12};
      auto const bags = jagged ? ops::Bags<TypeParam>(this->put(ids), this->put(offsets))
                               : ops::Bags<TypeParam>(this->put(ids, {4, 3}));
      auto const reference = [&](Doubles const& table) {
        Doubles pooled;
        for (std::size_t bag = 0; bag + 1 < offsets.size(); ++bag) {
          Doubles sum(kWidth, 0.0);
          double valid = 0;
          for (auto place = offsets[bag]; place < offsets[bag + 1]; ++place) {
            auto const id = ids[static_cast<std::size_t>(place)];
            if (id >= 0 && id < kRows) {
              ++valid;
              for (std::size_t c = 0; c < kWidth; ++c) {
                sum[c] += table[static_cast<std::size_t>(id) * kWidth + c];
              }
            }
          }
          for (auto const element : sum) {
            pooled.push_back(pooling == Pooling::mean && valid > 0 ? element / valid : element);
          }
        }
        return pooled;
      };
      auto const values = this->random.reals(kRows * static_cast<std::int64_t>(kWidth));
      auto const labels = this->random.reals(4 * static_cast<std::int64_t>(kWidth), 0.0F, 1.0F);
      auto const expected = numeric_gradient(
          [&](Doubles const& at) { return this->loss(reference(at), labels); }, to_doubles(values));
      auto const table = this->put(values, {kRows, kWidth});
      GradientTape tape(this->device());
      auto const pooled = ops::embedding_lookup(tape, table, bags, {.pooling = pooling});
      expect_near(to_host(pooled), reference(to_doubles(values)));
      tape.backward(ops::mean_bce_with_logits(tape, pooled, this->put(labels, pooled.shape())));
      expect_near(whole_table<TypeParam>(tape.row_gradients(table), table.shape()), expected);
    }
  }
}

TYPED_TEST(DifferentiableOpsTest, a_chain_through_shared_tensors) {
  // Uses tensors several times: with h = x W + b, the result contains y = sigmoid(h) + h + x, h,
  // and y / 4. Each use of a tensor adds its part of the gradient.
  auto const weight = this->random.reals(9);
  auto const w = to_doubles(weight);
  this->expect_gradient(
      {4, 3},
      [&](auto& tape, auto const& x) {
        auto const h = ops::dense(tape, x, this->put(weight, {3, 3}), this->put(Floats(3, 0.5F)));
        auto const y = ops::add(tape, std::vector{ops::sigmoid(tape, h), h, x});
        return ops::concat(tape, std::vector{y, h, ops::scale(tape, y, 0.25F)});
      },
      [&](Doubles const& x) {
        auto const h = dense_reference(x, w, Doubles(3, 0.5), ops::Activation::none);
        Doubles packed;
        for (std::size_t row = 0; row < 4; ++row) {
          Doubles y;
          for (std::size_t i = 3 * row; i < 3 * row + 3; ++i) {
            y.push_back(1 / (1 + std::exp(-h[i])) + h[i] + x[i]);
          }
          packed.insert(packed.end(), y.begin(), y.end());
          packed.insert(packed.end(),
                        h.begin() + 3 * static_cast<std::ptrdiff_t>(row),
                        h.begin() + 3 * static_cast<std::ptrdiff_t>(row) + 3);
          for (auto const element : y) {
            packed.push_back(element / 4);
          }
        }
        return packed;
      });
}

TYPED_TEST(DifferentiableOpsTest, rows_of_a_result_beside_the_whole) {
  auto const part = [](auto& tape, auto const& x, std::int64_t begin, std::int64_t end) {
    return ops::rows(tape, ops::scale(tape, x, 2.0F), begin, end);
  };
  for (auto const& range : {std::pair{0, 2}, {1, 3}, {0, 3}}) {
    auto const begin = range.first;
    auto const end = range.second;
    SCOPED_TRACE(fmt::format("rows {} to {}", begin, end));
    auto const first = static_cast<std::ptrdiff_t>(begin) * 2;
    auto const last = static_cast<std::ptrdiff_t>(end) * 2;
    this->expect_gradient(
        {3, 2},
        [&](auto& tape, auto const& x) { return part(tape, x, begin, end); },
        [&](Doubles x) {
          std::ranges::transform(x, x.begin(), [](double v) { return 2 * v; });
          return Doubles{x.begin() + first, x.begin() + last};
        });
  }
  this->expect_gradient(
      {3, 2},
      [](auto& tape, auto const& x) {
        auto const doubled = ops::scale(tape, x, 2.0F);
        return ops::concat(
            tape,
            std::vector{doubled.reshaped({1, 6}), ops::rows(tape, doubled, 0, 2).reshaped({1, 4})});
      },
      [](Doubles const& x) {
        Doubles out;
        for (std::size_t i = 0; i < 10; ++i) {
          out.push_back(2 * x[i % 6]);
        }
        return out;
      });
}

TYPED_TEST(DifferentiableOpsTest, a_batch_of_tables_has_the_gradients_of_each) {
  constexpr std::int64_t kTables = 2;
  constexpr std::int64_t kBatch = 3;
  constexpr std::int64_t kWidth = 2;
  ops::TableBatch<float, TypeParam> const tables(this->device(), {5, 4}, kWidth);
  copy(tables.weights(), this->random_tensor({9, kWidth}));
  Integers const ids{4, 0, 1, 3, 4, 3};
  GradientTape tape(this->device());
  auto const rows = ops::rows_of_tables(tables, ops::Bags<TypeParam>(this->put(ids)));
  auto const pooled = ops::embedding_lookup(tape, tables, rows, Pooling::sum);
  ASSERT_EQ(pooled.shape(), (Shape{kBatch, kTables * kWidth}));
  auto const labels = this->put(this->random.reals(pooled.count(), 0.0F, 1.0F), pooled.shape());
  tape.backward(ops::mean_bce_with_logits(tape, pooled, labels));
  auto const& parts = tape.row_gradients(tables.weights());
  ASSERT_EQ(parts.size(), 1U);
  auto const count = to_host(parts.front().rows.count).front();
  auto const unique = to_host(parts.front().rows.ids);
  EXPECT_EQ(Integers(unique.begin(), unique.begin() + count), (Integers{1, 4, 5, 8}));
  // Samples 0 and 2 look up row 4 of the first table.
  auto const x = to_host(pooled);
  auto const z = to_host(labels);
  auto const of = [&](std::size_t place) {
    return (1 / (1 + std::exp(-double{x[place]})) - z[place]) / static_cast<double>(x.size());
  };
  auto const values = to_host(parts.front().rows.values);
  expect_near(Floats(values.begin() + 2, values.begin() + 4), {of(0) + of(8), of(1) + of(9)});
}

}  // namespace
}  // namespace msstream::testing
