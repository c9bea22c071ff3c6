// SPDX-License-Identifier: Apache-2.0
// Tests predicted durations of steps on several ranks against timelines that were computed by hand.
#include "comm/ranks.hpp"
#include "step/trace/step_traces.hpp"

#include <msstream/comm/collectives.hpp>
#include <msstream/comm/measure_links.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/ranks_model.hpp>
#include <msstream/step/record_step.hpp>

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using comm::CollectiveKind;
using comm::Links;

/// Returns a model of round numbers: a launch takes 100 ns on the host, nothing takes time between
/// nodes of a graph, the device has 100 multiprocessors, and no part of an operation is fixed.
RanksModel round_ranks(int ranks, StepModel::Launch launch = StepModel::Launch::graph) {
  RanksModel model{.ranks = ranks, .fixed_ns = 0};
  model.step.launch = launch;
  model.step.in_stream_ns = 0;
  model.step.across_streams_ns = 0;
  model.step.cost.launch_call_ns = 100;
  model.step.cost.copy_call_ns = 100;
  model.step.cost.record_call_ns = 0;
  model.step.cost.wait_call_ns = 0;
  model.step.cost.query_call_ns = 0;
  model.step.cost.sm_count = 100;
  return model;
}

/// Returns links of a node of 8 ranks with 50 ns, 10 for each further step, and a byte per ns.
Links round_node(int multiprocessors = 0) {
  Links links{.ranks_per_node = 8, .multiprocessors = multiprocessors};
  for (auto const kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_to_all, CollectiveKind::all_gather}) {
    links.inside[kind] = {.latency_ns = 50, .step_ns = 10, .bytes_per_ns = 1};
  }
  return links;
}

/// Two halves of a backward pass, each with the exchange of its gradients, and the update.
StepTrace backward_in_two_halves() {
  TraceMaker maker;
  maker.add("backward", 0, 1000, {}, {0});
  maker.add_collective(CollectiveKind::all_reduce, 1, 600, {0});
  maker.add("backward", 0, 1000, {}, {1});
  maker.add_collective(CollectiveKind::all_reduce, 1, 600, {1});
  maker.add("update", 0, 300, {0, 1}, {2});
  return maker.run();
}

TEST(PredictRanks, one_rank_takes_no_time_for_collectives) {
  auto const one = predict(backward_in_two_halves(), round_node(), round_ranks(1));
  EXPECT_DOUBLE_EQ(one.step_ns, 2300);
  EXPECT_DOUBLE_EQ(one.compute_ns, 2300);
  EXPECT_DOUBLE_EQ(one.collectives_ns, 0);
  EXPECT_DOUBLE_EQ(one.computing(), 1);
}

TEST(PredictRanks, a_collective_runs_beside_the_backward_and_before_the_update) {
  // On two ranks 600 bytes take 50 + 600 ns. The first exchange runs from 1000 to 1650 beside the
  // second half, the second one from 2000 to 2650, and the update follows.
  auto const two = predict(backward_in_two_halves(), round_node(), round_ranks(2));
  EXPECT_DOUBLE_EQ(two.step_ns, 2650 + 300);
  EXPECT_DOUBLE_EQ(two.compute_ns, 2300);
  EXPECT_DOUBLE_EQ(two.collectives_ns, 2 * 650);
  EXPECT_DOUBLE_EQ(two.exposed_ns(), 650);
  EXPECT_DOUBLE_EQ(two.computing(), 2300.0 / 2950);
  // On eight, 50 + 6 * 10 + 1050 ns: the second exchange begins at 2160, after the first.
  auto const eight = predict(backward_in_two_halves(), round_node(), round_ranks(8));
  EXPECT_DOUBLE_EQ(eight.step_ns, 1000 + 2 * 1160 + 300);
  // Issued by one thread: the first launch takes 100 ns, and later ones are hidden.
  auto const eager =
      predict(backward_in_two_halves(), round_node(), round_ranks(2, StepModel::Launch::eager));
  EXPECT_DOUBLE_EQ(eager.step_ns, 100 + 2650 + 300);
}

TEST(PredictRanks, a_wait_between_streams_of_a_graph_takes_its_time) {
  auto model = round_ranks(2);
  model.step.across_streams_ns = 7;
  EXPECT_DOUBLE_EQ(predict(backward_in_two_halves(), round_node(), model).step_ns,
                   2000 + 7 + 650 + 7 + 300);
}

StepTrace two_communicators() {
  TraceMaker maker;
  maker.add_collective(CollectiveKind::all_reduce, 0, 1000, {0}, "left");
  maker.add_collective(CollectiveKind::all_reduce, 1, 400, {1}, "right");
  return maker.run();
}

TEST(PredictRanks, communicators_beside_each_other_share_the_link) {
  // `left` is issued at 100, `right` at 200. `left` is alone on the link from 150 to 250. Both
  // share it until `right` has moved its 400 bytes, at 1050, and `left` has 500 left.
  EXPECT_DOUBLE_EQ(
      predict(two_communicators(), round_node(), round_ranks(2, StepModel::Launch::eager)).step_ns,
      1550);
  // A captured step runs them one after the other.
  EXPECT_DOUBLE_EQ(predict(two_communicators(), round_node(), round_ranks(2)).step_ns, 1050 + 450);
}

TEST(PredictRanks, one_communicator_runs_its_collectives_in_order) {
  TraceMaker maker;
  maker.add_collective(CollectiveKind::all_reduce, 0, 1000, {0});
  maker.add_collective(CollectiveKind::all_reduce, 0, 400, {1});
  EXPECT_DOUBLE_EQ(
      predict(maker.run(), round_node(), round_ranks(2, StepModel::Launch::eager)).step_ns,
      100 + 1050 + 450);
  EXPECT_DOUBLE_EQ(predict(maker.run(), round_node(), round_ranks(2)).step_ns, 1050 + 450);
}

TEST(PredictRanks, collectives_are_on_no_stream_of_their_recorded_group) {
  TraceMaker maker;
  maker.add("other", 0, 1000, {}, {1});
  maker.add_collective(CollectiveKind::all_reduce, 0, 600, {0});
  EXPECT_DOUBLE_EQ(predict(maker.run(), round_node(), round_ranks(2)).step_ns, 1000);
  EXPECT_EQ(streams_by(maker.run(), {0, 0}), (std::vector<std::size_t>{0, 1}));
  // Without links, a collective takes its traced time, also beside the other operation.
  EXPECT_DOUBLE_EQ(predict(maker.run(), StepGroups{0, 0}, round_ranks(1).step), 1000);
}

TEST(PredictRanks, operations_of_a_communicator_are_on_its_stream) {
  std::vector<StepTrace::Operation> operations{
      {.name = "other", .writes = {0}, .end_ns = 500},
      {.name = "copy", .stream = 1, .writes = {1}, .end_ns = 1000},
      {.name = "all_reduce", .stream = 1, .writes = {2}, .end_ns = 1}};
  operations[2].collective = StepTrace::Collective{CollectiveKind::all_reduce, 600, "world", 2};
  StepTrace const trace({{.name = "default"}, {.name = "comm world"}}, {0, 0, 0}, operations);
  EXPECT_EQ(streams_by(trace, {-1, -1, -1}), (std::vector<std::size_t>{0, 1, 1}));
  EXPECT_DOUBLE_EQ(predict(trace, round_node(), round_ranks(2)).step_ns, 1000 + 650);
  EXPECT_DOUBLE_EQ(predict(trace, round_node(), round_ranks(2, StepModel::Launch::eager)).step_ns,
                   200 + 1000 + 650);
}

TEST(PredictRanks, collectives_keep_multiprocessors_from_kernels) {
  TraceMaker maker;
  maker.add("product", 0, 1000, {}, {1}, StreamKind::compute, 100);
  maker.add_collective(CollectiveKind::all_reduce, 1, 750, {0});
  // Beside the collective of 800 ns, the product runs at 3/4 of its speed.
  EXPECT_DOUBLE_EQ(predict(maker.run(), round_node(25), round_ranks(2)).step_ns, 800 + 400);
  EXPECT_DOUBLE_EQ(predict(maker.run(), round_node(0), round_ranks(2)).step_ns, 1000);
  // If a collective took all, kernels would still go on, at a hundredth of their speed.
  EXPECT_DOUBLE_EQ(predict(maker.run(), round_node(1000), round_ranks(2)).step_ns, 800 + 992);
}

StepTrace lookup_step() {
  TraceMaker maker;
  maker.add("lookup", 0, 1000, {}, {0});
  maker.add_collective(CollectiveKind::all_to_all, 1, 1600, {0});
  maker.add("dense", 0, 2000, {0}, {1});
  maker.add_collective(CollectiveKind::all_reduce, 1, 800, {1});
  maker.add("optimizer/step", 0, 400, {1}, {2});
  return maker.run();
}

TEST(PredictRanks, strong_scaling_shares_rows_and_keeps_what_does_not_depend_on_them) {
  auto const weak = predict(lookup_step(), round_node(), round_ranks(4));
  // The latency is 50 + 2 * 10 of either.
  EXPECT_DOUBLE_EQ(weak.step_ns, 1000 + 1270 + 2000 + 1270 + 400);
  auto strong = round_ranks(4);
  strong.rows = 0.25;
  // Computing and the all_to_all of samples shrink; the all_reduce of gradients does not.
  EXPECT_DOUBLE_EQ(predict(lookup_step(), round_node(), strong).step_ns,
                   250 + 370 + 500 + 1270 + 100);
  strong.fixed_ns = 200;
  EXPECT_DOUBLE_EQ(predict(lookup_step(), round_node(), strong).compute_ns,
                   3 * 200 + 200 + 450 + 50);
  strong.fixed = {"optimizer/*"};
  EXPECT_DOUBLE_EQ(predict(lookup_step(), round_node(), strong).compute_ns,
                   2 * 200 + 200 + 450 + 400);
  strong.fixed_ns = 5000;
  EXPECT_DOUBLE_EQ(predict(lookup_step(), round_node(), strong).compute_ns, 3400);
}

TEST(PredictRanks, strong_scaling_keeps_the_launches_of_the_host) {
  TraceMaker maker;
  for (std::size_t i = 0; i < 10; ++i) {
    maker.add("op", 0, 150, {}, {i});
  }
  maker.add_collective(CollectiveKind::all_reduce, 1, 2, {10});
  auto model = round_ranks(2, StepModel::Launch::eager);
  EXPECT_DOUBLE_EQ(predict(maker.run(), round_node(), model).step_ns, 100 + 10 * 150);
  model.rows = 0.5;
  EXPECT_DOUBLE_EQ(predict(maker.run(), round_node(), model).step_ns, 11 * 100 + 52);
}

TEST(PredictRanks, the_last_rank_makes_the_step_longer_by_its_skew) {
  auto model = round_ranks(2);
  model.skew_ns = 123;
  EXPECT_DOUBLE_EQ(predict(backward_in_two_halves(), round_node(), model).step_ns, 2950 + 123);
}

TEST(PredictRanks, more_ranks_and_bytes_take_longer_and_more_bandwidth_shorter) {
  auto links = round_node();
  links.between = links.inside;
  for (auto& [kind, speed] : links.between) {
    speed.bytes_per_ns = 0.25;
  }
  for (auto const launch : {StepModel::Launch::graph, StepModel::Launch::eager}) {
    for (auto const& trace : {backward_in_two_halves(), lookup_step(), two_communicators()}) {
      double before = 0;
      for (int ranks = 1; ranks <= 1024; ranks *= 2) {
        auto const now = predict(trace, links, round_ranks(ranks, launch));
        EXPECT_GE(now.step_ns, before) << ranks;
        EXPECT_GE(now.step_ns, now.compute_ns);
        EXPECT_LE(now.step_ns, now.compute_ns + now.collectives_ns + 1e-6);
        before = now.step_ns;
        auto faster = links;
        for (auto* const speeds : {&faster.inside, &faster.between}) {
          for (auto& [kind, speed] : *speeds) {
            speed.bytes_per_ns *= 2;
          }
        }
        EXPECT_LE(predict(trace, faster, round_ranks(ranks, launch)).step_ns, now.step_ns);
      }
    }
  }
}

std::string refusal_of_ranks(StepTrace const& trace, Links const& links, RanksModel const& model) {
  return message_of<std::invalid_argument>([&] { (void)predict(trace, links, model); });
}

TEST(PredictRanks, nonsense_is_refused_by_name) {
  auto const trace = lookup_step();
  auto const with = [](auto const& change) {
    auto model = round_ranks(2);
    change(model);
    return model;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal_of_ranks(trace, round_node(), round_ranks(0)),
              HasSubstr("0 ranks; expected 1 or more"));
  EXPECT_THAT(refusal_of_ranks(trace, round_node(), round_ranks(12)),
              HasSubstr("12 ranks on nodes of 8"));
  EXPECT_THAT(refusal_of_ranks(trace, round_node(), with([](auto& model) { model.rows = 0; })),
              HasSubstr("rows of 0 times those of the trace; expected more than 0"));
  EXPECT_THAT(refusal_of_ranks(trace, round_node(), with([](auto& model) { model.skew_ns = -1; })),
              HasSubstr("skew_ns of -1"));
  EXPECT_THAT(refusal_of_ranks(trace, round_node(), with([](auto& model) {
                                 model.fixed_ns = std::numeric_limits<double>::infinity();
                               })),
              HasSubstr("fixed_ns of inf"));
  EXPECT_THAT(
      refusal_of_ranks(trace, round_node(), with([](auto& model) {
                         model.fixed = {"optimizer/*", "*/optimiser/*"};
                       })),
      HasSubstr("fixed[1], '*/optimiser/*', matches none of the 5 operations of the trace"));
  auto links = round_node();
  links.inside[CollectiveKind::all_to_all].bytes_per_ns = -1;
  EXPECT_THAT(refusal_of_ranks(trace, links, round_ranks(2)),
              HasSubstr("inside.all_to_all.bytes_per_ns: expected 1e-09 to 1000000000, found -1"));
  links.inside.erase(CollectiveKind::all_to_all);
  EXPECT_THAT(refusal_of_ranks(trace, links, round_ranks(2)),
              HasSubstr("inside: no speed of all_to_all"));
  TraceMaker alone;
  alone.add("op", 0, 10, {}, {0});
  EXPECT_THAT(refusal_of_ranks(alone.run(), round_node(), round_ranks(2)),
              HasSubstr("2 ranks, and a trace of 1 operations without a collective"));
  EXPECT_DOUBLE_EQ(predict(alone.run(), round_node(), round_ranks(1)).step_ns, 10);
  StepTrace const old(
      {{.name = "comm world"}}, {8}, {{.name = "all_reduce", .writes = {0}, .end_ns = 5}});
  EXPECT_THAT(refusal_of_ranks(old, round_node(), round_ranks(2)),
              HasSubstr("operations[0], 'all_reduce' of the stream 'comm world', has no field "
                        "'collective' with its bytes"));
}

TEST(PredictRanks, a_trace_keeps_its_collectives_in_its_file) {
  auto const trace = lookup_step();
  EXPECT_EQ(StepTrace::from_json(trace.json(), "a.json"), trace);
  auto const change = [&](std::string const& from, std::string const& to) {
    auto text = trace.json();
    text.replace(text.find(from), from.size(), to);
    return message_of<std::invalid_argument>([&] { (void)StepTrace::from_json(text, "a.json"); });
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(change("\"kind\": \"all_to_all\"", "\"kind\": \"all_to\""),
              HasSubstr("collective.kind: expected the name of a collective"));
  EXPECT_THAT(change("\"bytes\": 1600", "\"bytes\": -1"), HasSubstr("collective.bytes"));
  EXPECT_THAT(change("\"bytes\": 1600, ", ""), HasSubstr("a field 'bytes', found none"));
  EXPECT_THAT(change("\"communicator\": \"world\"", "\"communicator\": \"\""),
              HasSubstr("collective.communicator: expected a name, found none"));
  EXPECT_THAT(change("\"ranks\": 2", "\"ranks\": 0"), HasSubstr("collective.ranks"));
}

/// The tensors of a step with four kinds of collectives between two operations of the default
/// group, in which each follows the one before.
template <Runtime R>
struct ExchangeStep {
  explicit ExchangeStep(Rank<R> const& rank)
      : communicator(rank.communicator),
        given(rank.device, {100}),
        part(rank.device, {8}),
        whole(rank.device, {8 * rank.size()}),
        other(rank.device, {8 * rank.size()}) {
    for (auto const& tensor : {given, part, whole, other}) {
      fill_bytes(tensor, 0);
    }
  }
  void operator()() const {
    fill_bytes(given, 0);
    {
      NameScope const scope("exchange");
      all_reduce(communicator, given);
      all_gather(communicator, part, whole);
      reduce_scatter(communicator, whole, part);
      all_to_all(communicator, whole, other);
    }
    fill_bytes(other, 0);
  }

  comm::Communicator<R> communicator;
  Tensor<float, R> given;
  Tensor<float, R> part;
  Tensor<float, R> whole;
  Tensor<float, R> other;
};

template <class R>
class TracedRanksTest : public RanksTest<R> {};
TYPED_TEST_SUITE(TracedRanksTest, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(TracedRanksTest, a_trace_has_what_a_rank_gives_to_each_collective) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    ExchangeStep const exchange(rank);
    auto const trace = record_step(rank.device, exchange, SpanTiming::as_issued);
    std::vector<std::string> found;
    for (auto const& operation : trace.operations()) {
      if (auto const& collective = operation.collective) {
        found.push_back(fmt::format("{} {} {} {} {}",
                                    operation.name,
                                    name_of(collective->kind),
                                    collective->bytes,
                                    collective->communicator,
                                    collective->ranks));
      }
    }
    auto const size = rank.size();
    EXPECT_THAT(
        found,
        ::testing::ElementsAre(
            fmt::format("exchange/all_reduce all_reduce 400 world {}", size),
            fmt::format("exchange/all_gather all_gather 32 world {}", size),
            fmt::format("exchange/reduce_scatter reduce_scatter {} world {}", 32 * size, size),
            fmt::format("exchange/all_to_all all_to_all {} world {}", 32 * size, size)));
    EXPECT_EQ(StepTrace::from_json(trace.json(), "a.json"), trace);
  });
}

TYPED_TEST(TracedRanksTest, the_step_of_two_ranks_is_predicted_from_their_own_links) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    ExchangeStep const exchange(rank);
    auto const trace = record_step(rank.device, exchange);
    auto const links = comm::measure_links(rank.communicator, 1U << 14U);
    auto model = round_ranks(rank.size());
    auto const prediction = predict(trace, links, model);
    double collectives = 0;
    double others = 0;
    for (auto const& operation : trace.operations()) {
      if (auto const& collective = operation.collective) {
        collectives += collective_ns(
            links, collective->kind, static_cast<double>(collective->bytes), rank.size());
      } else {
        others += operation.duration_ns();
      }
    }
    // The step is a chain: everything follows what is before it.
    EXPECT_NEAR(prediction.compute_ns, others, 1);
    EXPECT_NEAR(prediction.step_ns, others + collectives, 1);
    EXPECT_NEAR(prediction.collectives_ns, collectives, 1);
  });
}

TEST(TracedRanks, collectives_of_a_capture_are_not_recorded) {
  on_ranks<Host>(2, [](Rank<Host> const& rank) {
    ExchangeStep const exchange(rank);
    exchange();
    CapturedStep<Host> step(rank.device, exchange);
    auto const trace = record_step(
        rank.device, [&] { step.replay(); }, SpanTiming::as_issued);
    ASSERT_EQ(trace.operations().size(), 1U);
    EXPECT_FALSE(trace.operations()[0].collective);
  });
}

}  // namespace
}  // namespace msstream::testing
