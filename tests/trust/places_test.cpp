// SPDX-License-Identifier: Apache-2.0
// Tests that reports contain the source lines at which the program called an operation, never lines
// of the library.
#include "trust/checked_fixture.hpp"
#include "trust/switched_off.hpp"

#include <msstream/ops/attention.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/batch_parts.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <fmt/core.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

namespace msstream::testing {
namespace {

template <class Inner>
class Places : public CheckedProgram<Inner> {
 protected:
  using R = Checked<Inner>;
  using Floats = Tensor<float, R>;

  void SetUp() override {
    if (auto const why = this->why_it_may_not_race(); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }

  [[nodiscard]] Floats matrix(std::int64_t rows, std::int64_t columns) {
    auto tensor = zeros<float, R>(this->device(), {rows, columns});
    this->device().default_group().compute().synchronize();
    return tensor;
  }
  /// Returns the races that were found, as text: the names of both operations, each with the line
  /// of this file at which it was called, or 0 if the line is in another file.
  [[nodiscard]] std::set<std::string> races() const {
    std::set<std::string> found;
    for (auto const& report : this->checker().reports()) {
      if (report.kind == CheckKind::race) {
        found.insert(fmt::format("{}, {}", side(report.first), side(report.second)));
      }
    }
    return found;
  }
  /// Runs the program with one mechanism switched off, so that a necessary wait for another stream
  /// is missing and a race is reported.
  template <class Program>
  void run_without(Mechanism mechanism, Program const& program) {
    SwitchedOff const switched_off(mechanism);
    program();
    this->synchronize();
  }

 private:
  [[nodiscard]] static std::string side(std::optional<CheckReport::Access> const& access) {
    auto const& at = access.value().issued_at;
    auto const line = std::string_view(at.file_name()) == __FILE__ ? at.line() : 0U;
    return fmt::format("{}:{}", access->operation, line);
  }
};
TYPED_TEST_SUITE(Places, CheckedRuntimes, CheckedRuntimeNames);

/// Returns the text with which races() describes the operation.
[[nodiscard]] std::string at(char const* operation, unsigned line) {
  return fmt::format("{}:{}", operation, line);
}

TYPED_TEST(Places, of_a_race_between_operations_are_the_callers) {
  auto const input = this->written_tensor();
  unsigned first = 0;
  unsigned second = 0;
  this->run_without(Mechanism::read_after_write, [&] {
    StreamScope const outer(this->group(0));
    auto const squares = (first = __LINE__, ops::square(input));
    StreamScope const inner(this->group(1));
    auto const sum = (second = __LINE__, ops::scaled_sum(squares, 2.0F));
  });
  EXPECT_THAT(this->races(),
              ::testing::ElementsAre(at("square", first) + ", " + at("sum", second)));
}

TYPED_TEST(Places, of_the_operations_that_another_is_made_of_are_the_callers) {
  auto const queries = this->matrix(2, 4);
  unsigned first = 0;
  unsigned second = 0;
  this->run_without(Mechanism::read_after_write, [&] {
    StreamScope const outer(this->group(0));
    auto const keys = (first = __LINE__, ops::transpose(this->matrix(4, 3)));
    auto const scores = (second = __LINE__, ops::attention_scores(queries, keys));
    StreamScope const inner(this->group(1));
    auto const gradients = ops::attention_scores_gradient(queries, keys, scores, scores);
  });
  EXPECT_THAT(
      this->races(),
      ::testing::IsSupersetOf({at("transpose", first) + ", " + at("matmul", second + 2),
                               at("softmax", second) + ", " + at("softmax_gradient", second + 2)}));
}

TYPED_TEST(Places, of_a_race_between_tape_forms_and_of_their_backward_are_their_callers) {
  using R = typename TestFixture::R;
  auto const input = this->written_tensor();
  GradientTape<R> tape(this->device());
  unsigned squared = 0;
  unsigned summed = 0;
  this->run_without(Mechanism::read_after_write, [&] {
    StreamScope const outer(this->group(0), {.include_grad = true});
    auto const squares = (squared = __LINE__, ops::square(tape, input));
    StreamScope const inner(this->group(1), {.include_grad = true});
    auto const loss = (summed = __LINE__, ops::sum(tape, squares));
    tape.backward(loss);
  });
  EXPECT_THAT(this->races(),
              ::testing::IsSupersetOf({at("square", squared) + ", " + at("sum", summed),
                                       at("gradients/broadcast", summed) + ", " +
                                           at("gradients/square_gradient", squared)}));
}

TYPED_TEST(Places, of_an_optimizers_step_are_those_of_the_step) {
  using R = typename TestFixture::R;
  auto const weight = this->written_tensor();
  GradientTape<R> tape(this->device());
  Optimizer<R> optimizer(this->device(), {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F});
  optimizer.add("weight", weight);
  tape.backward(ops::sum(tape, weight));
  this->synchronize();
  unsigned first = 0;
  unsigned second = 0;
  this->run_without(Mechanism::read_after_write, [&] {
    StreamScope const outer(this->group(0));
    first = __LINE__, optimizer.step(tape);
    StreamScope const inner(this->group(1));
    auto const squares = (second = __LINE__, ops::square(weight));
  });
  EXPECT_THAT(this->races(),
              ::testing::ElementsAre(at("update_dense", first) + ", " + at("square", second)));
}

TYPED_TEST(Places, of_a_lookup_in_many_tables_are_those_of_the_lookup) {
  using R = typename TestFixture::R;
  auto const rows = this->matrix(4, 2);
  auto const ids =
      to_device<std::int64_t, R>(this->device(), std::vector<std::int64_t>{0, 1, 2}, {3});
  auto const weights = this->matrix(4, 2);
  ops::EmbeddingTables<R> const tables(this->device(), {{.weights = weights}});
  this->synchronize();
  unsigned first = 0;
  unsigned second = 0;
  this->run_without(Mechanism::read_after_write, [&] {
    StreamScope const outer(this->group(0));
    first = __LINE__, copy(weights, rows);
    StreamScope const inner(this->group(1));
    auto const pooled =
        (second = __LINE__, ops::embedding_lookup(tables, {.ids = ids, .batch = 3}));
  });
  EXPECT_THAT(
      this->races(),
      ::testing::ElementsAre(at("copy_d2d", first) + ", " + at("embedding_tables_lookup", second)));
}

}  // namespace
}  // namespace msstream::testing
