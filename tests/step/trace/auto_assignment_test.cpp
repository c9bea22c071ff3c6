// SPDX-License-Identifier: Apache-2.0
#include "step/trace/step_traces.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/record_step.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <fmt/core.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

/// Makes a trace of `chains` independent chains of `length` operations, each of `duration_ns`. The
/// operations of all chains are issued in turn.
StepTrace chains(std::size_t chains, std::size_t length, double duration_ns) {
  TraceMaker maker;
  for (std::size_t link = 0; link < length; ++link) {
    for (std::size_t chain = 0; chain < chains; ++chain) {
      auto const memory = [&](std::size_t of) { return chain * (length + 1) + of; };
      maker.add(fmt::format("chain_{}/op_{}", chain, link),
                0,
                duration_ns,
                {memory(link)},
                {memory(link + 1)});
    }
  }
  return maker.run();
}

StepTrace random_step(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  TraceMaker maker;
  for (int i = 0; i < 40; ++i) {
    std::vector<std::size_t> reads;
    for (auto left = random() % 3; left > 0; --left) {
      reads.push_back(random() % 12);
    }
    maker.add(fmt::format("op,{} (*)", random() % 15),
              static_cast<int>(random() % 3),
              static_cast<double>(100 + random() % 20'000),
              reads,
              {random() % 12},
              random() % 5 == 0 ? StreamKind::h2d : StreamKind::compute,
              static_cast<int>(random() % 60));
  }
  return maker.run();
}

constexpr StepModel::Launch kLaunches[] = {StepModel::Launch::eager, StepModel::Launch::graph};

/// Expects what must hold for every assignment of operations to groups that auto_assignment()
/// returns.
void expect_sound(StepTrace const& trace, int groups, AutoAssignment::Options const& options) {
  auto const result = auto_assignment(trace, groups, options);
  EXPECT_LE(result.predicted_ns, result.one_group_ns);
  EXPECT_LE(result.predicted_ns, result.recorded_ns);
  EXPECT_DOUBLE_EQ(result.one_group_ns,
                   predict(trace, StepGroups(trace.operations().size(), 0), options.model));
  auto const recorded = recorded_groups(trace);
  EXPECT_DOUBLE_EQ(result.recorded_ns, predict(trace, recorded, options.model));
  EXPECT_DOUBLE_EQ(result.predicted_ns, predict(trace, result.groups, options.model));
  auto const assignment = StreamAssignment::parse(result.text, "auto", groups);
  EXPECT_EQ(groups_by(trace, assignment), result.groups) << result.text;
  for (auto const& operation : trace.operations()) {
    EXPECT_TRUE(assignment.group_of(operation.name).has_value() || result.groups == recorded);
  }
  EXPECT_THAT(assignment.unmatched_lines(), ::testing::IsEmpty());
  EXPECT_EQ(auto_assignment(trace, groups, options).text, result.text);
}

TEST(AutoAssignment, independent_chains_go_apart) {
  auto const trace = chains(2, 6, 10'000);
  for (auto const launch : kLaunches) {
    auto const result = auto_assignment(trace, 2, {.model = {.launch = launch}});
    for (std::size_t i = 0; i < trace.operations().size(); ++i) {
      EXPECT_EQ(result.groups[i], result.groups[i % 2]) << "a chain stays together";
    }
    EXPECT_NE(result.groups[0], result.groups[1]);
    EXPECT_LT(result.predicted_ns, 0.6 * result.one_group_ns);
    expect_sound(trace, 2, {.model = {.launch = launch}});
  }
}

TEST(AutoAssignment, more_chains_take_more_groups) {
  auto const trace = chains(4, 4, 20'000);
  auto const result = auto_assignment(trace, 8, {.model = {.launch = StepModel::Launch::graph}});
  EXPECT_EQ(std::set<int>(result.groups.begin(), result.groups.end()).size(), 4U);
  EXPECT_DOUBLE_EQ(result.predicted_ns,
                   trace.critical_path().length_ns + 3 * StepModel{}.in_stream_ns);
}

/// Makes a trace of a training step with branches on different groups: forward layers, a join, and
/// backward layers with gradients of weights, which only the last operation reads.
StepTrace branches_by_hand(std::size_t branches, std::size_t layers) {
  TraceMaker maker;
  constexpr int kSms = 60;
  auto const add = [&](std::string name,
                       std::size_t branch,
                       std::vector<std::size_t> reads,
                       std::size_t memory,
                       double duration_ns) {
    maker.add(std::move(name),
              static_cast<int>(branch),
              duration_ns,
              std::move(reads),
              {memory},
              StreamKind::compute,
              kSms);
    return memory;
  };
  std::size_t next = 0;
  std::vector<std::size_t> ends;
  std::vector<std::size_t> last_reads;
  for (std::size_t branch = 0; branch < branches; ++branch) {
    for (std::size_t layer = 0; layer < layers; ++layer) {
      auto const before =
          layer == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{next - 1};
      add(fmt::format("branch{}/layer{}/op", branch, layer),
          branch,
          before,
          next,
          1500 + 100.0 * static_cast<double>(layer % 7));
      ++next;
    }
    ends.push_back(next - 1);
  }
  auto const joined = add("join", 0, ends, next++, 2000);
  for (std::size_t branch = branches; branch-- > 0;) {
    auto gradient = joined;
    for (std::size_t layer = layers; layer-- > 0;) {
      auto const scope = fmt::format("gradients/branch{}/layer{}", branch, layer);
      auto const value = branch * layers + layer;
      last_reads.push_back(
          add(fmt::format("{}/weight_gradient", scope), branch, {gradient, value}, next++, 1800));
      gradient = add(fmt::format("{}/op", scope), branch, {gradient, value}, next++, 1500);
    }
  }
  add("update", 0, last_reads, next++, 3000);
  return maker.run();
}

/// Returns the trace with all its operations moved to one group.
StepTrace on_one_group(StepTrace const& trace) {
  auto operations = trace.operations();
  for (auto& operation : operations) {
    operation.stream = 0;
  }
  return {{{"group 0", 0, true}}, trace.memory_bytes(), std::move(operations)};
}

TEST(AutoAssignment, is_no_worse_than_a_group_a_branch_by_hand) {
  AutoAssignment::Options const options{.model = {.launch = StepModel::Launch::graph}};
  for (std::size_t const branches : {4U, 6U}) {
    auto const by_hand = branches_by_hand(branches, 20);
    auto const trace = on_one_group(by_hand);
    auto const groups = static_cast<int>(branches);
    auto const result = auto_assignment(trace, groups, options);
    EXPECT_LE(result.predicted_ns, predict(by_hand, recorded_groups(by_hand), options.model));
    expect_sound(trace, groups, options);
  }
}

TEST(AutoAssignment, a_chain_stays_together) {
  auto const trace = chains(1, 8, 10'000);
  for (auto const launch : kLaunches) {
    auto const result = auto_assignment(trace, 4, {.model = {.launch = launch}});
    EXPECT_THAT(result.groups, Each(0));
    EXPECT_EQ(result.predicted_ns, result.one_group_ns);
  }
}

TEST(AutoAssignment, what_is_bound_by_launches_stays_on_one_group) {
  auto const trace = chains(4, 8, 1000);  // a launch takes 2600 ns
  EXPECT_THAT(auto_assignment(trace, 4).groups, Each(0));
  auto const replayed = auto_assignment(trace, 4, {.model = {.launch = StepModel::Launch::graph}});
  EXPECT_THAT(replayed.groups, Not(Each(0))) << "which a graph is not";
}

TEST(AutoAssignment, operations_of_one_name_share_a_group) {
  TraceMaker maker;
  for (std::size_t i = 0; i < 6; ++i) {
    maker.add("same", 0, 50'000, {}, {i});
  }
  auto const result = auto_assignment(maker.run(), 4);
  EXPECT_THAT(result.groups, Each(0));
  EXPECT_EQ(result.predicted_ns, result.one_group_ns);
}

TEST(AutoAssignment, what_was_recorded_is_kept_where_it_is_better) {
  TraceMaker maker;  // operations of one name on several groups, which no file can express
  for (std::size_t i = 0; i < 4; ++i) {
    maker.add("same", static_cast<int>(i), 50'000, {}, {i});
  }
  auto const trace = maker.run();
  auto const result = auto_assignment(trace, 4);
  EXPECT_EQ(result.groups, recorded_groups(trace));
  EXPECT_EQ(result.predicted_ns, result.recorded_ns);
  EXPECT_THAT(result.text, HasSubstr("# No better groups than the recorded ones were found."));
  expect_sound(trace, 4, {});
}

TEST(AutoAssignment, of_the_same_time_the_one_with_fewer_waits_is_taken) {
  TraceMaker maker;  // two long chains, and a short one that fits beside them anywhere
  for (std::size_t link = 0; link < 4; ++link) {
    maker.add(fmt::format("long_0_{}", link), 0, 50'000, {link}, {link + 1});
    maker.add(fmt::format("long_1_{}", link), 0, 50'000, {10 + link}, {11 + link});
    maker.add(fmt::format("short_{}", link), 0, 5'000, {20 + link}, {21 + link});
  }
  auto const trace = maker.run();
  auto const result = auto_assignment(trace, 3, {.model = {.launch = StepModel::Launch::graph}});
  EXPECT_LT(result.predicted_ns, 0.6 * result.one_group_ns);
  EXPECT_EQ(minimal_waits(trace, result.groups).necessary, 0U);
}

TEST(AutoAssignment, the_text_tells_the_predictions) {
  auto const text = auto_assignment(chains(2, 2, 100'000), 2).text;
  EXPECT_THAT(text,
              AllOf(HasSubstr("# Groups for a step of 4 operations and a pool of 2"),
                    HasSubstr("issued by one thread: "),
                    HasSubstr("; on one group 402.6 us; as recorded 402.6 us."),
                    HasSubstr("\n0:"),
                    HasSubstr("\n1:")));
}

TEST(AutoAssignment, any_name_is_written_so_that_it_is_read_back) {
  TraceMaker maker;
  std::size_t memory = 0;
  for (std::string name : {"a.b*c+d?",
                           "(x|y)[z]{3}^$\\",
                           "comma,colon:hash#",
                           " spaces ",
                           "tab\t",
                           "line\nbreak",
                           "\xc3\xa9",
                           "#first",
                           "<\"&'>~`!@%=;",
                           "-a/b_c"}) {
    for (auto const& suffix : {"", "/x"}) {
      maker.add(name + suffix, 0, 50'000, {}, {memory++});
    }
  }
  maker.add(std::string(900, 'n'), 0, 50'000, {}, {memory++});
  expect_sound(maker.run(), 8, {.most_predictions = 40});
  maker.add(std::string(600, '.'), 0, 50'000, {}, {memory++});
  expect_refused(
      [&] { static_cast<void>(auto_assignment(maker.run(), 8, {.most_predictions = 9})); },
      "name of 600 bytes cannot be written");
}

TEST(AutoAssignment, lines_are_short) {
  auto const text = auto_assignment(chains(4, 40, 20'000), 2, {.most_predictions = 20}).text;
  for (std::size_t at = 0; at < text.size();) {
    auto const end = text.find('\n', at);
    EXPECT_LE(end - at, 130U);
    at = end + 1;
  }
}

TEST(AutoAssignment, random_steps_are_never_predicted_slower) {
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    for (auto const launch : kLaunches) {
      for (bool const merge : {false, true}) {
        expect_sound(random_step(seed),
                     1 + static_cast<int>(seed % 4),
                     {.model = {.launch = launch, .merge_streams = merge}, .most_predictions = 60});
      }
    }
  }
}

TEST(AutoAssignment, of_nothing_is_nothing) {
  auto const result = auto_assignment(StepTrace({}, {}, {}), 2);
  EXPECT_EQ(result.predicted_ns, 0);
  EXPECT_TRUE(result.groups.empty());
  expect_refused([] { static_cast<void>(auto_assignment(StepTrace({}, {}, {}), 0)); },
                 "expected 1 to 256 groups, found 0");
}

template <class R>
class AutoAssignmentOfRecorded : public OpsTest<R> {};
TYPED_TEST_SUITE(AutoAssignmentOfRecorded, Runtimes, RuntimeNames);

TYPED_TEST(AutoAssignmentOfRecorded, steps_go_where_it_says_with_the_same_results) {
  auto const x = this->put(std::vector<float>(100, 1.0F));
  auto const step = [&] {
    std::vector<Tensor<float, TypeParam>> branches;
    for (int i = 0; i < 4; ++i) {
      NameScope const branch(fmt::format("branch_{}", i));
      auto y = ops::scale(x, 0.5F);
      for (int link = 0; link < 4; ++link) {
        NameScope const layer(fmt::format("layer_{}", link));
        y = ops::sigmoid(y);
      }
      branches.push_back(y);
    }
    return to_host(ops::add(branches));
  };
  std::vector<float> expected;
  auto const recorded = record_step(this->device(), [&] { expected = step(); });
  // Replaces the measured times by equal durations, so that the result does not depend on the
  // machine.
  auto operations = recorded.operations();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    operations[i].begin_ns = static_cast<double>(i) * 10'000;
    operations[i].end_ns = operations[i].begin_ns + 10'000;
  }
  StepTrace const trace(recorded.streams(), recorded.memory_bytes(), operations);
  auto const result = auto_assignment(trace, 3, {.model = {.launch = StepModel::Launch::graph}});
  EXPECT_LT(result.predicted_ns, result.one_group_ns);

  StreamPool const pool(
      this->device(), {.groups = 3, .assignment = StreamAssignment::parse(result.text, "auto", 3)});
  std::vector<float> placed;
  auto const again = record_step(this->device(), [&] { placed = step(); });
  EXPECT_EQ(placed, expected);
  EXPECT_EQ(recorded_groups(again), result.groups);
}

}  // namespace
}  // namespace msstream::testing
