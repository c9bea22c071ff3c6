// SPDX-License-Identifier: Apache-2.0
// Tests the times of collectives against those computed by hand, and their measurement.
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "comm/links/link_time.hpp"
#include "comm/ranks.hpp"

#include <msstream/comm/links.hpp>
#include <msstream/comm/measure_links.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using comm::CollectiveKind;
using comm::Links;
using comm::detail::collective_time;
using ::testing::HasSubstr;

constexpr CollectiveKind kLinkKinds[] = {CollectiveKind::all_reduce,
                                         CollectiveKind::reduce_scatter,
                                         CollectiveKind::all_gather,
                                         CollectiveKind::all_to_all,
                                         CollectiveKind::broadcast,
                                         CollectiveKind::send};

/// Returns links of nodes of 4 ranks: inside 100 ns, 10 a step and 10 bytes per ns, between nodes
/// 1000 ns, 200 a step and 1 byte per ns.
Links round_links() {
  Links links{.ranks_per_node = 4};
  for (auto const kind : kLinkKinds) {
    links.inside[kind] = {.latency_ns = 100, .step_ns = 10, .bytes_per_ns = 10};
    links.between[kind] = {.latency_ns = 1000, .step_ns = 200, .bytes_per_ns = 1};
  }
  return links;
}

std::vector<double> time_of(CollectiveKind kind, double bytes, int ranks) {
  auto const time = collective_time(round_links(), kind, bytes, ranks);
  return {time.latency_ns, time.link_ns};
}

TEST(CollectiveTime, one_rank_takes_none) {
  for (auto const kind : kLinkKinds) {
    EXPECT_EQ(time_of(kind, 1e6, 1), (std::vector<double>{0, 0})) << name_of(kind);
  }
  EXPECT_EQ(collective_ns({}, CollectiveKind::all_reduce, 1e6, 1), 0) << "without speeds";
}

TEST(CollectiveTime, in_a_node_the_bytes_of_rings_and_the_steps_of_chains) {
  // Two ranks: the latency is that of the call.
  EXPECT_EQ(time_of(CollectiveKind::all_reduce, 1200, 2), (std::vector<double>{100, 120}));
  EXPECT_EQ(time_of(CollectiveKind::reduce_scatter, 1200, 2), (std::vector<double>{100, 60}));
  EXPECT_EQ(time_of(CollectiveKind::all_gather, 1200, 2), (std::vector<double>{100, 120}));
  EXPECT_EQ(time_of(CollectiveKind::all_to_all, 1200, 2), (std::vector<double>{100, 60}));
  EXPECT_EQ(time_of(CollectiveKind::broadcast, 1200, 2), (std::vector<double>{100, 120}));
  EXPECT_EQ(time_of(CollectiveKind::send, 1200, 2), (std::vector<double>{100, 120}));
  EXPECT_EQ(time_of(CollectiveKind::barrier, 0, 2), (std::vector<double>{100, 0}));
  // Three: two steps of a chain, two of a ring, two messages.
  EXPECT_EQ(time_of(CollectiveKind::all_reduce, 1200, 3), (std::vector<double>{110, 160}));
  EXPECT_EQ(time_of(CollectiveKind::all_gather, 1200, 3), (std::vector<double>{110, 240}));
  EXPECT_EQ(time_of(CollectiveKind::all_to_all, 1200, 3), (std::vector<double>{110, 80}));
  // Four: three of each.
  EXPECT_EQ(time_of(CollectiveKind::all_reduce, 1200, 4), (std::vector<double>{120, 180}));
  EXPECT_EQ(time_of(CollectiveKind::reduce_scatter, 1200, 4), (std::vector<double>{120, 90}));
  EXPECT_EQ(time_of(CollectiveKind::all_gather, 1200, 4), (std::vector<double>{120, 360}));
  EXPECT_EQ(time_of(CollectiveKind::all_to_all, 1200, 4), (std::vector<double>{120, 90}));
  EXPECT_EQ(time_of(CollectiveKind::send, 1200, 4), (std::vector<double>{100, 120}));
}

TEST(CollectiveTime, between_nodes_the_slower_of_both_links_counts) {
  // Sixteen ranks on four nodes: chains of 3 steps and a tree of 2 levels, rings of 12 steps inside
  // nodes and 3 between them, messages to 3 ranks inside and 12 outside. A quarter of what a ring
  // carries leaves through each rank.
  EXPECT_EQ(time_of(CollectiveKind::all_reduce, 1600, 16),
            (std::vector<double>{3 * 10 + 1000 + 200, 3000 / 4.0}));
  EXPECT_EQ(time_of(CollectiveKind::reduce_scatter, 1600, 16),
            (std::vector<double>{12 * 10 + 1000 + 2 * 200, 1500 / 4.0}));
  EXPECT_EQ(time_of(CollectiveKind::all_gather, 100, 16),
            (std::vector<double>{12 * 10 + 1000 + 2 * 200, 1500 / 4.0}));
  EXPECT_EQ(time_of(CollectiveKind::all_to_all, 1600, 16),
            (std::vector<double>{3 * 10 + 1000 + 11 * 200, 1200}));
  EXPECT_EQ(time_of(CollectiveKind::broadcast, 1600, 16),
            (std::vector<double>{12 * 10 + 1000 + 2 * 200, 400}));
  EXPECT_EQ(time_of(CollectiveKind::barrier, 0, 16), (std::vector<double>{3 * 10 + 1000 + 200, 0}));
  // Three nodes have two levels, as four.
  EXPECT_EQ(time_of(CollectiveKind::all_reduce, 0, 12),
            (std::vector<double>{3 * 10 + 1000 + 200, 0}));
  EXPECT_EQ(time_of(CollectiveKind::receive, 1600, 16), (std::vector<double>{1000, 1600}));
  // Where the network of a node is faster than what connects its ranks, the latter counts.
  auto links = round_links();
  links.between[CollectiveKind::all_reduce].bytes_per_ns = 100;
  EXPECT_EQ(collective_time(links, CollectiveKind::all_reduce, 1600, 16).link_ns, 300);
}

TEST(CollectiveTime, a_rank_a_node_has_no_links_inside) {
  auto links = round_links();
  links.ranks_per_node = 1;
  links.inside = {};
  auto const time = collective_time(links, CollectiveKind::all_reduce, 1600, 4);
  EXPECT_EQ(time.latency_ns, 1000 + 200);
  EXPECT_EQ(time.link_ns, 2400);
}

TEST(CollectiveTime, more_ranks_or_bytes_take_longer_and_more_bandwidth_shorter) {
  for (auto const kind : kLinkKinds) {
    double before = 0;
    for (int ranks = 1; ranks <= 4096; ranks *= 2) {
      auto const ns = collective_ns(round_links(), kind, 1e6, ranks);
      EXPECT_GE(ns, before) << name_of(kind) << ", " << ranks;
      before = ns;
      EXPECT_GE(collective_ns(round_links(), kind, 2e6, ranks), ns);
      auto faster = round_links();
      faster.inside[kind].bytes_per_ns *= 2;
      faster.between[kind].bytes_per_ns *= 2;
      EXPECT_LE(collective_ns(faster, kind, 1e6, ranks), ns);
    }
  }
}

template <class Change>
std::string refusal_of_links(Change const& change, int ranks = 8) {
  auto links = round_links();
  change(links);
  return message_of<std::invalid_argument>(
      [&] { (void)collective_time(links, CollectiveKind::all_reduce, 8, ranks); });
}

TEST(CollectiveTime, nonsense_is_refused_by_name) {
  auto const kind = CollectiveKind::all_reduce;
  auto const as_is = [](Links const&) {};
  EXPECT_THAT(refusal_of_links(as_is, 0), HasSubstr("0 ranks; expected a number from 1 to"));
  EXPECT_THAT(refusal_of_links(as_is, -1), HasSubstr("-1 ranks"));
  EXPECT_THAT(refusal_of_links(as_is, 6), HasSubstr("6 ranks on nodes of 4; expected full nodes"));
  EXPECT_THAT(refusal_of_links([](Links& links) { links.ranks_per_node = 0; }),
              HasSubstr("ranks_per_node: expected a number from 1 to 1000000, found 0"));
  EXPECT_THAT(refusal_of_links([](Links& links) { links.multiprocessors = -1; }),
              HasSubstr("multiprocessors: expected 0 or more, found -1"));
  EXPECT_THAT(refusal_of_links([&](Links& links) { links.inside[kind].bytes_per_ns = -3; }),
              HasSubstr("inside.all_reduce.bytes_per_ns: expected 1e-09 to 1000000000, found -3"));
  EXPECT_THAT(refusal_of_links([&](Links& links) { links.between[kind].bytes_per_ns = 0; }),
              HasSubstr("between.all_reduce.bytes_per_ns: expected 1e-09 to 1000000000, found 0"));
  EXPECT_THAT(refusal_of_links([&](Links& links) { links.between[kind].latency_ns = -1; }),
              HasSubstr("between.all_reduce.latency_ns: expected 0 to 1e+18, found -1"));
  EXPECT_THAT(refusal_of_links([&](Links& links) {
                links.inside[kind].step_ns = std::numeric_limits<double>::quiet_NaN();
              }),
              HasSubstr("inside.all_reduce.step_ns: expected 0 to 1e+18, found nan"));
  EXPECT_THAT(refusal_of_links([&](Links& links) { links.between.erase(kind); }),
              HasSubstr("between: no speed of all_reduce"));
  EXPECT_THAT(refusal_of_links([&](Links& links) { links.inside[CollectiveKind::barrier] = {}; }),
              HasSubstr("inside.barrier: expected the speed of all_reduce alone"));
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { (void)collective_time(round_links(), kind, -8, 2); }),
      HasSubstr("all_reduce of -8 bytes"));
}

class LinksFile : public ::testing::Test {
 protected:
  std::string refusal_of(std::string const& text) const {
    std::ofstream(path) << text;
    return message_of<std::invalid_argument>([&] { (void)comm::load_links(path); });
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder / "links.json";
};

TEST_F(LinksFile, is_read_as_it_was_written) {
  auto links = round_links();
  links.multiprocessors = 16;
  links.between[CollectiveKind::all_to_all].latency_ns = 0.1;
  comm::save_links(path, links);
  EXPECT_EQ(comm::load_links(path), links);
}

TEST_F(LinksFile, that_is_wrong_is_refused_with_its_field) {
  std::string const begin = R"({"format": "msstream links", "version": 1, "ranks_per_node": 2, )";
  EXPECT_THAT(refusal_of("{"), HasSubstr("links.json: no JSON"));
  EXPECT_THAT(refusal_of(R"({"format": "plan"})"), HasSubstr("format: expected"));
  EXPECT_THAT(refusal_of(begin + R"("bandwidth": 3})"), HasSubstr("unknown field 'bandwidth'"));
  EXPECT_THAT(refusal_of(begin + "\"a\": 1}"), HasSubstr("links.json"));
  EXPECT_THAT(refusal_of(begin.substr(0, begin.size() - 2) + "}"),
              HasSubstr("expected a field 'inside', found none"));
  EXPECT_THAT(refusal_of(begin + R"("inside": {"all_rduce": {}}})"),
              HasSubstr("inside.all_rduce: expected the name of a collective"));
  EXPECT_THAT(refusal_of(begin + R"("inside": {"send": {"latency_ns": 1, "step_ns": 1}}})"),
              HasSubstr("inside.send: expected a field 'bytes_per_ns', found none"));
  EXPECT_THAT(
      refusal_of(begin +
                 R"("inside": {"send": {"latency_ns": "1", "step_ns": 1, "bytes_per_ns": 1}}})"),
      HasSubstr("inside.send.latency_ns: expected a number, found \"1\""));
  EXPECT_THAT(
      refusal_of(begin +
                 R"("inside": {"send": {"latency_ns": 1, "step_ns": 1, "bytes_per_ns": -1}}})"),
      HasSubstr("inside.send.bytes_per_ns: expected 1e-09 to 1000000000, found -1"));
  std::string const named = begin.substr(0, begin.find(R"("ranks_per_node")"));
  for (auto const* const found : {"0", "-1", "1000001", "8.0"}) {
    EXPECT_THAT(refusal_of(named + R"("ranks_per_node": )" + found + R"(, "inside": {}})"),
                HasSubstr("ranks_per_node: expected a whole number from 1 to 1000000, found " +
                          std::string(found)));
  }
  std::string const send = R"("send": {"latency_ns": 1, "step_ns": 1, "bytes_per_ns": 1})";
  EXPECT_THAT(refusal_of(begin + R"("inside": {)" + send + ", " + send + "}}"),
              HasSubstr("links.json: the field 'send' occurs twice in an object"));
  EXPECT_THAT(refusal_of(begin + R"("ranks_per_node": 8, "inside": {}})"),
              HasSubstr("the field 'ranks_per_node' occurs twice in an object"));
}

TEST(CollectiveTime, no_accepted_links_take_a_time_without_end) {
  for (auto const kind : kLinkKinds) {
    for (int const per_node : {1, 1'000'000}) {
      Links links{.ranks_per_node = per_node};
      links.inside[kind] = {.latency_ns = 1e18, .step_ns = 1e18, .bytes_per_ns = 1e-9};
      links.between = links.inside;
      EXPECT_TRUE(std::isfinite(collective_ns(links, kind, 1e24, 1'000'000))) << name_of(kind);
      links.inside[kind].bytes_per_ns = 1e-320;
      EXPECT_THAT(message_of<std::invalid_argument>([&] { comm::require_links(links); }),
                  HasSubstr("bytes_per_ns: expected 1e-09 to 1000000000, found"));
    }
  }
}

TEST(LinkFit, finds_the_line_and_never_a_negative_latency) {
  auto const exact = comm::detail::fit_link({{1000, 600}, {4000, 900}, {64000, 6900}});
  EXPECT_NEAR(exact.latency_ns, 500, 1e-6);
  EXPECT_NEAR(exact.bytes_per_ns, 10, 1e-9);
  auto const steep = comm::detail::fit_link({{1000, 10}, {10000, 1000}});
  EXPECT_EQ(steep.latency_ns, 0);
  EXPECT_GT(steep.bytes_per_ns, 0);
  auto const falling = comm::detail::fit_link({{1000, 100}, {10000, 50}});
  EXPECT_GE(falling.latency_ns, 0);
  EXPECT_DOUBLE_EQ(falling.bytes_per_ns, 200);
  auto const flat = comm::detail::fit_link({{1000, 100}, {4000, 100 + 1e-9}});
  EXPECT_NEAR(flat.latency_ns, 100, 1e-6);
  EXPECT_EQ(flat.bytes_per_ns, 1e9) << "the most that links have";
}

template <class R>
class MeasureLinksTest : public RanksTest<R> {};
TYPED_TEST_SUITE(MeasureLinksTest, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(MeasureLinksTest, all_ranks_get_equal_speeds_of_all_kinds) {
  for (int const ranks : {2, 3}) {
    std::vector<Links> found(3);
    int count = 0;
    on_ranks<TypeParam>(ranks, [&](Rank<TypeParam> const& rank) {
      found[static_cast<std::size_t>(rank.rank())] =
          comm::measure_links(rank.communicator, 1U << 16U);
      if (rank.rank() == 0) {
        count = rank.size();
      }
      auto const sum = rank.tensor(std::vector<float>{1});
      all_reduce(rank.communicator, sum);
      EXPECT_EQ(to_host(sum)[0], static_cast<float>(rank.size())) << "and can be used afterwards";
    });
    EXPECT_EQ(found[0].ranks_per_node, count);
    EXPECT_EQ(found[0].multiprocessors, 0);
    EXPECT_TRUE(found[0].between.empty());
    for (auto const kind : kLinkKinds) {
      ASSERT_TRUE(found[0].inside.contains(kind)) << name_of(kind);
      EXPECT_GT(collective_ns(found[0], kind, 4096, count), 0) << name_of(kind);
    }
    for (int rank = 1; rank < count; ++rank) {
      EXPECT_EQ(found[static_cast<std::size_t>(rank)], found[0]);
    }
  }
}

TEST(MeasureLinks, refuses_one_rank_and_fewer_than_two_sizes) {
  on_ranks<Host>(1, [](Rank<Host> const& rank) {
    EXPECT_THAT(
        message_of<std::invalid_argument>([&] { (void)comm::measure_links(rank.communicator); }),
        HasSubstr("communicator 'world' of one rank"));
  });
  on_ranks<Host>(2, [](Rank<Host> const& rank) {
    for (std::size_t const most : {8U, 4096U, 16'383U}) {
      EXPECT_THAT(message_of<std::invalid_argument>(
                      [&] { (void)comm::measure_links(rank.communicator, most); }),
                  HasSubstr(fmt::format("up to {} bytes on 2 ranks, which has fewer than two; "
                                        "expected 16384 bytes or more",
                                        most)));
    }
    (void)comm::measure_links(rank.communicator, 16'384);
  });
}

}  // namespace
}  // namespace msstream::testing
