// SPDX-License-Identifier: Apache-2.0
#include "step/capture/captured_fixture.hpp"
#include "step/trace/step_traces.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/record_step.hpp>

#include <fmt/core.h>

#include <bit>
#include <random>
#include <set>

namespace msstream::testing {
namespace {

/// The order of operations that follows from the order of each stream and from the waits. A wait
/// {before, of} makes operation `of` follow operation `before`.
class Order {
 public:
  using Edge = std::pair<std::size_t, std::size_t>;

  Order(std::vector<std::size_t> const& streams, std::vector<Edge> const& waits)
      : before_(streams.size(), std::vector<bool>(streams.size(), false)) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      for (std::size_t earlier = i; earlier-- > 0;) {
        if (streams[earlier] == streams[i]) {
          take(i, earlier);
          break;
        }
      }
      for (auto const& [before, of] : waits) {
        if (of == i) {
          take(i, before);
        }
      }
    }
  }
  [[nodiscard]] bool precedes(std::size_t first, std::size_t second) const {
    return before_[second][first];
  }
  [[nodiscard]] bool keeps(StepTrace const& trace) const {
    for (std::size_t i = 0; i < trace.operations().size(); ++i) {
      for (auto const earlier : trace.operations()[i].after) {
        if (!precedes(earlier, i)) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  void take(std::size_t i, std::size_t earlier) {
    for (std::size_t k = 0; k < earlier; ++k) {
      before_[i][k] = before_[i][k] || before_[earlier][k];
    }
    before_[i][earlier] = true;
  }

  std::vector<std::vector<bool>> before_;
};

std::vector<Order::Edge> edges_between_streams(StepTrace const& trace,
                                               std::vector<std::size_t> const& streams) {
  std::vector<Order::Edge> edges;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    for (auto const earlier : trace.operations()[i].after) {
      if (streams[earlier] != streams[i]) {
        edges.emplace_back(earlier, i);
      }
    }
  }
  return edges;
}

StepTrace random_trace(std::mt19937_64& random, std::size_t operations, int groups) {
  TraceMaker maker;
  for (std::size_t i = 0; i < operations; ++i) {
    std::vector<std::size_t> reads;
    for (auto left = random() % 3; left > 0; --left) {
      reads.push_back(random() % 5);
    }
    maker.add(fmt::format("op{}", i),
              static_cast<int>(random() % static_cast<unsigned>(groups)),
              1,
              reads,
              {random() % 5});
  }
  return maker.run();
}

TEST(StepWaits, of_a_chain_on_one_stream_are_none) {
  TraceMaker maker;
  for (std::size_t i = 0; i < 5; ++i) {
    maker.add("op", 0, 1, {i}, {i + 1});
  }
  EXPECT_EQ(minimal_waits(maker.run()), (StepWaits{0, 0, 0}));
  EXPECT_EQ(minimal_waits(maker.run(), {0, 1, 0, 1, 0}), (StepWaits{4, 4, 4}));
  EXPECT_EQ(minimal_waits(maker.run(), {-1, -1, 0, 0, 1}), (StepWaits{2, 2, 2}));
}

TEST(StepWaits, what_another_wait_implies_is_not_waited_for) {
  TraceMaker maker;
  maker.add("a", 0, 1, {}, {0});
  maker.add("b", 1, 1, {0}, {1});     // waits for a
  maker.add("c", 2, 1, {0, 1}, {2});  // waits for b, and so for a
  maker.add("d", 2, 1, {0}, {3});     // implied by the waits of c
  EXPECT_EQ(minimal_waits(maker.run()), (StepWaits{4, 2, 2}));
}

TEST(StepWaits, a_late_event_saves_a_wait) {
  TraceMaker maker;
  maker.add("a", 0, 1, {}, {0});
  maker.add("b", 0, 1, {}, {1});
  maker.add("c", 1, 1, {0}, {2});  // its event is recorded here, behind b
  maker.add("d", 1, 1, {1}, {3});
  EXPECT_EQ(minimal_waits(maker.run()), (StepWaits{2, 2, 1}));
}

TEST(StepWaits, copies_have_streams_of_their_own_unless_merged) {
  TraceMaker maker;
  maker.add("in", 0, 1, {}, {0}, StreamKind::h2d);
  maker.add("work", 0, 1, {0}, {1});
  maker.add("out", 0, 1, {1}, {2}, StreamKind::d2h);
  auto const trace = maker.run();
  EXPECT_EQ(minimal_waits(trace, {0, 0, 0}), (StepWaits{2, 2, 2}));
  EXPECT_EQ(minimal_waits(trace, {0, 0, 0}, /*merge_streams=*/true), (StepWaits{0, 0, 0}));
}

TEST(StepWaits, refuses_groups_that_are_not_there) {
  TraceMaker maker;
  maker.add("a", 0, 1, {}, {0});
  auto const trace = maker.run();
  expect_refused(
      [&] {
        static_cast<void>(minimal_waits(trace, {0, 0}));
      },
      "groups for 2 operations; expected one for each of the step's 1");
  expect_refused([&] { static_cast<void>(minimal_waits(trace, {-2})); }, "found -2");
}

TEST(StepWaits, are_the_fewest_of_all_subsets_of_edges) {
  std::mt19937_64 random(1);
  std::size_t tried = 0;
  for (int program = 0; program < 400; ++program) {
    auto const trace = random_trace(random, 7, 3);
    auto const streams = streams_by(trace, recorded_groups(trace));
    auto const edges = edges_between_streams(trace, streams);
    if (edges.size() > 11) {
      continue;
    }
    ++tried;
    std::size_t fewest = edges.size();
    for (std::uint32_t subset = 0; subset < (1U << edges.size()); ++subset) {
      auto const count = static_cast<std::size_t>(std::popcount(subset));
      if (count < fewest) {
        std::vector<Order::Edge> chosen;
        for (std::size_t i = 0; i < edges.size(); ++i) {
          if ((subset >> i & 1U) != 0) {
            chosen.push_back(edges[i]);
          }
        }
        fewest = Order(streams, chosen).keeps(trace) ? count : fewest;
      }
    }
    ASSERT_EQ(minimal_waits(trace).necessary, fewest) << trace.json();
  }
  EXPECT_GT(tried, 200U);
}

TEST(StepWaits, are_the_edges_that_no_other_ones_imply) {
  std::mt19937_64 random(2);
  for (int program = 0; program < 100; ++program) {
    auto const trace = random_trace(random, 60, 4);
    auto const streams = streams_by(trace, recorded_groups(trace));
    auto const edges = edges_between_streams(trace, streams);
    Order const order(streams, edges);
    std::set<std::pair<std::size_t, std::size_t>> hazards;
    std::size_t necessary = 0;
    for (auto const& [before, of] : edges) {
      hazards.insert({streams[before], of});
      bool implied = false;
      for (std::size_t via = before + 1; via < of; ++via) {
        bool const leads_to = streams[via] == streams[of] ||
                              std::ranges::find(edges, Order::Edge(via, of)) != edges.end();
        implied = implied || (leads_to && order.precedes(before, via));
      }
      necessary += implied ? 0 : 1;
    }
    auto const waits = minimal_waits(trace);
    EXPECT_EQ(waits.necessary, necessary);
    EXPECT_EQ(waits.hazards, hazards.size());
    EXPECT_LE(waits.issued, waits.hazards);
  }
}

template <class R>
class RecordedWaitsTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(RecordedWaitsTest, Runtimes, RuntimeNames);

/// A device with four groups, and a step of operations on random groups and streams, which use
/// memory that was allocated before.
template <Runtime R>
class ScatteredOperations {
 public:
  ScatteredOperations(std::uint64_t seed, bool reduce_waits, bool merge_streams)
      : seed_(seed),
        device_(DeviceOptions<R>{.reduce_waits = reduce_waits}),
        pool_(device_, {.groups = kGroups, .merge_streams = merge_streams}) {
    for (int i = 0; i < 8; ++i) {
      memory_.emplace_back(device_, Shape{4});
    }
  }
  void issue_all() const {
    std::mt19937_64 random(seed_);
    for (auto const& tensor : memory_) {
      StreamScope const scope(pool_[static_cast<int>(random() % kGroups)]);
      issue("write", writes(tensor), [](auto) {});
    }
    for (int i = 0; i < 100; ++i) {
      StreamScope const scope(pool_[static_cast<int>(random() % kGroups)]);
      std::vector<Tensor<float, R>> inputs;
      for (auto left = random() % 3; left > 0; --left) {
        inputs.push_back(memory_[random() % memory_.size()]);
      }
      auto const kind = static_cast<StreamKind>(random() % 3);
      if (random() % 3 == 0 && !inputs.empty()) {
        issue("read", reads(inputs), [](auto) {}, {.stream = kind});
      } else {
        auto const& output = memory_[random() % memory_.size()];
        issue("write", reads(inputs), writes(output), [](auto) {}, {.stream = kind});
      }
    }
  }
  /// Issues and records the operations while a gate keeps all of their work incomplete.
  [[nodiscard]] StepTrace record() const {
    Gate gate;
    auto const step = [&] {
      gate.hold(pool_[0].compute());
      issue_all();
      gate.open();
    };
    // Records the timing SpanTiming::as_issued: operations that the host holds back would queue
    // behind the gate.
    return record_step(device_, step, SpanTiming::as_issued);
  }
  [[nodiscard]] WaitCounts capture() const requires CapturingRuntime<R> {
    auto const before = device_.wait_counts();
    CapturedStep<R> const captured(device_, [&] { issue_all(); });
    auto const after = device_.wait_counts();
    return {
        after.needed - before.needed, after.issued - before.issued, after.elided - before.elided};
  }

 private:
  static constexpr int kGroups = 4;

  std::uint64_t seed_;
  Device<R> device_;
  StreamPool<R> pool_;
  std::vector<Tensor<float, R>> memory_;
};

TYPED_TEST(RecordedWaitsTest, are_those_that_the_tracker_issues) {
  std::size_t saved = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (bool const merge : {false, true}) {
      auto const trace =
          ScatteredOperations<TypeParam>(seed, /*reduce_waits=*/true, merge).record();
      auto const waits = minimal_waits(trace);
      EXPECT_EQ(trace.waits().issued, waits.issued) << "seed " << seed;
      EXPECT_EQ(trace.waits().needed, waits.hazards) << "seed " << seed;
      EXPECT_EQ(minimal_waits(trace, recorded_groups(trace), merge), waits);

      auto const unreduced =
          ScatteredOperations<TypeParam>(seed, /*reduce_waits=*/false, merge).record();
      EXPECT_EQ(unreduced.waits().issued, minimal_waits(unreduced).hazards);
      EXPECT_GE(unreduced.waits().issued, waits.necessary);
      saved += unreduced.waits().issued - waits.issued;
    }
  }
  EXPECT_GT(saved, 0U);
}

template <class R>
class CapturedWaitsTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(CapturedWaitsTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedWaitsTest, are_the_necessary_ones) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (bool const merge : {false, true}) {
      auto const waits = minimal_waits(
          ScatteredOperations<TypeParam>(seed, /*reduce_waits=*/true, merge).record());
      ScatteredOperations<TypeParam> const reduced(seed, /*reduce_waits=*/true, merge);
      EXPECT_EQ(reduced.capture().issued, waits.necessary) << "seed " << seed;
      ScatteredOperations<TypeParam> const unreduced(seed, /*reduce_waits=*/false, merge);
      EXPECT_EQ(unreduced.capture().issued, waits.hazards) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace msstream::testing
