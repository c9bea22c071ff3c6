// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"
#include "stream/stream_context.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

StreamAssignment assign(std::string_view lines, int groups = 4) {
  return StreamAssignment::parse(lines, "groups", groups);
}

template <class R>
class PlacementTest : public OpsTest<R> {
 protected:
  using Floats32 = Tensor<float, R>;

  /// Issues an operation of the given name and returns the identity of its stream, whose group may
  /// be of any pool. The operation writes `into` if given, otherwise fresh memory.
  [[nodiscard]] detail::StreamIdentity where(char const* name, std::optional<Floats32> into = {}) {
    return identity(issue(name, writes(into ? *into : fresh()), [](auto) {}));
  }
  [[nodiscard]] detail::StreamIdentity where_from(char const* name,
                                                  std::vector<Floats32> const& inputs,
                                                  IssueOptions const& options = {}) {
    return identity(issue(
        name, reads(inputs), writes(fresh()), [](auto) {}, options));
  }
  [[nodiscard]] Floats32 fresh() const { return Floats32(this->device(), {4}); }
  [[nodiscard]] Floats32 written_on(StreamGroup<R> const& group) const {
    StreamScope const scope(group);
    auto tensor = fresh();
    issue("write", writes(tensor), [](auto) {});
    return tensor;
  }

 private:
  [[nodiscard]] detail::StreamIdentity identity(order::Position position) const {
    return this->device().context()->tracker->identity_of(position.stream);
  }
};
TYPED_TEST_SUITE(PlacementTest, Runtimes, RuntimeNames);

TYPED_TEST(PlacementTest, without_it_operations_go_by_scope_alone) {
  StreamPool pool(this->device(), {.groups = 4});
  EXPECT_EQ(this->where("op").group, -1);
  EXPECT_EQ(this->where_from("op", {this->written_on(pool[2])}).group, -1);
  StreamScope const scope(pool[3]);
  EXPECT_EQ(this->where("op").group, 3);
}

TYPED_TEST(PlacementTest, the_file_comes_before_the_scope) {
  StreamPool pool(this->device(), {.groups = 4, .assignment = assign("2:tower/.*\n1:op")});
  EXPECT_EQ(this->where("op").group, 1);
  EXPECT_EQ(this->where("other").group, -1);
  StreamScope const scope(pool[3]);
  EXPECT_EQ(this->where("op").group, 1);
  EXPECT_EQ(this->where("other").group, 3);
  NameScope const tower("tower");
  EXPECT_EQ(this->where("op").group, 2);
  NameScope const layer("layer_0");
  EXPECT_EQ(this->where("op").group, 2);
}

TYPED_TEST(PlacementTest, the_scope_comes_before_the_inputs) {
  StreamPool pool(this->device(), {.groups = 4, .propagate_groups = true});
  auto const input = this->written_on(pool[2]);
  EXPECT_EQ(this->where_from("op", {input}).group, 2);
  StreamScope const scope(pool[1]);
  EXPECT_EQ(this->where_from("op", {input}).group, 1);
}

TYPED_TEST(PlacementTest, the_file_comes_before_the_inputs) {
  StreamPool pool(this->device(),
                  {.groups = 4, .assignment = assign("3:op"), .propagate_groups = true});
  auto const input = this->written_on(pool[2]);
  EXPECT_EQ(this->where_from("op", {input}).group, 3);
  EXPECT_EQ(this->where_from("other", {input}).group, 2);
}

TYPED_TEST(PlacementTest, the_first_input_that_a_group_of_the_pool_wrote_counts) {
  StreamPool const other(this->device(), {.groups = 2});
  StreamPool pool(this->device(), {.groups = 4, .propagate_groups = true});
  auto const from_other = this->written_on(other[1]);
  auto const from_default = this->written_on(this->device().default_group());
  auto const second = this->written_on(pool[2]);
  auto const third = this->written_on(pool[3]);
  EXPECT_EQ(this->where_from("op", {from_other}).group, -1);
  EXPECT_EQ(this->where_from("op", {from_default, from_other}).group, -1);
  EXPECT_EQ(this->where_from("op", {from_default, from_other, third, second}).group, 3);
  EXPECT_EQ(this->where_from("op", {second, third}).group, 2);
  // An input counts for the group that wrote it last.
  EXPECT_EQ(this->where_from("op", {second}).group, 2);
  {
    StreamScope const scope(pool[0]);
    EXPECT_EQ(this->where("op", second).group, 0);
  }
  EXPECT_EQ(this->where_from("op", {second}).group, 0);
  EXPECT_EQ(this->where("op", second).group, -1) << "reads nothing";
}

TYPED_TEST(PlacementTest, groups_are_handed_on_from_operation_to_operation) {
  StreamPool pool(this->device(), {.groups = 4, .propagate_groups = true});
  auto const input = this->written_on(pool[3]);
  auto const next = ops::scale(ops::sigmoid(input), 2.0F);
  EXPECT_EQ(this->where_from("op", {next}).group, 3);
}

TYPED_TEST(PlacementTest, what_is_only_read_has_no_group) {
  StreamPool pool(this->device(), {.groups = 4, .propagate_groups = true});
  auto weights = this->written_on(pool[1]);
  weights.freeze();
  EXPECT_EQ(this->where_from("op", {weights}).group, -1);
  EXPECT_EQ(this->where_from("op", {weights, this->written_on(pool[2])}).group, 2);
}

TYPED_TEST(PlacementTest, copies_go_to_the_groups_streams) {
  StreamPool pool(this->device(),
                  {.groups = 4, .assignment = assign("3:in/.*"), .propagate_groups = true});
  this->device().start_spans();
  std::vector<float> const values{1, 2, 3};
  std::optional<Tensor<float, TypeParam>> input;
  {
    NameScope const scope("in");
    input.emplace(this->put(values));  // in/copy_h2d
    fill_bytes(this->fresh(), 0);      // in/fill
  }
  auto const copied = Tensor<float, TypeParam>(this->device(), input->shape());
  copy(copied, *input);                // copy_d2d, on the group of the input
  EXPECT_EQ(to_host(copied), values);  // copy_d2h
  std::vector<std::string> lanes;
  auto const timeline = this->device().stop_spans();
  for (auto const& span : timeline.spans()) {
    lanes.push_back(span.name + " on " + span.lane);
  }
  EXPECT_THAT(lanes,
              ::testing::UnorderedElementsAre("in/copy_h2d on group 3 h2d",
                                              "in/fill on group 3 compute",
                                              "copy_d2d on group 3 compute",
                                              "copy_d2h on group 3 d2h"));
}

TYPED_TEST(PlacementTest, memory_the_host_wrote_has_no_group) {
  StreamPool pool(this->device(), {.groups = 4, .propagate_groups = true});
  PinnedArray<float, TypeParam> const staged(this->device(), 4);
  copy(staged, this->written_on(pool[2]));  // d2h, on group 2
  staged.wait();
  auto const tensor = this->fresh();
  copy(tensor, staged);
  EXPECT_EQ(this->where_from("op", {tensor}).group, -1);
}

TYPED_TEST(PlacementTest, one_pool_a_device_at_a_time) {
  auto pool = std::make_unique<StreamPool<TypeParam>>(
      this->device(), StreamPoolOptions{.groups = 2, .propagate_groups = true});
  auto const make_second = [&] {
    StreamPool const second(this->device(), {.groups = 2, .assignment = assign("1:.*", 2)});
  };
  EXPECT_THAT(message_of<std::logic_error>(make_second),
              HasSubstr("one such pool a device at a time"));
  StreamPool const plain(this->device(), {.groups = 2});
  Device<TypeParam> const other;
  StreamPool const elsewhere(other, {.groups = 2, .propagate_groups = true});
  auto const input = this->written_on((*pool)[1]);
  EXPECT_EQ(this->where_from("op", {input}).group, 1);
  pool.reset();
  EXPECT_EQ(this->where_from("op", {input}).group, -1) << "with the pool, placement ends";
  StreamPool const after(this->device(), {.groups = 2, .assignment = assign("1:.*", 2)});
  EXPECT_EQ(this->where_from("op", {input}).group, 1);
}

TYPED_TEST(PlacementTest, a_stream_in_the_old_place_of_another_did_not_do_its_work) {
  std::optional<Tensor<float, TypeParam>> input;
  {
    StreamPool pool(this->device(), {.groups = 8, .propagate_groups = true});
    input.emplace(this->written_on(pool[5]));
    pool.synchronize();
  }
  StreamPool pool(this->device(), {.groups = 8, .propagate_groups = true});
  EXPECT_EQ(this->where_from("op", {*input}).group, -1);
}

TYPED_TEST(PlacementTest, an_assignment_to_more_groups_than_there_are_is_refused) {
  expect_refused(
      [&] { StreamPool const pool(this->device(), {.groups = 2, .assignment = assign("1:a")}); },
      "assignment to 4 groups for a pool of 2");
  StreamPool const pool(this->device(), {.groups = 2, .assignment = assign("0:a", 1)});
  EXPECT_EQ(this->where("a").group, 0);
}

TYPED_TEST(PlacementTest, lines_that_matched_nothing_can_be_asked_for) {
  auto const assignment = assign("1:used\n2:unused\n");
  StreamPool const pool(this->device(), {.groups = 4, .assignment = assignment});
  EXPECT_EQ(this->where("used").group, 1);
  EXPECT_THAT(assignment.unmatched_lines(), ::testing::ElementsAre("groups:2: 2:unused"));
  EXPECT_EQ(this->where("unused").group, 2);
  EXPECT_THAT(pool.options().assignment->unmatched_lines(), IsEmpty()) << "copies share the marks";
}

TYPED_TEST(PlacementTest, a_pool_that_goes_says_which_lines_matched_nothing) {
  std::vector<std::string> said;
  auto const note = [&](std::string const& line) { said.push_back(line); };
  for (auto const* name : {"used", "", "other"}) {
    StreamPool const pool(
        this->device(),
        {.groups = 4, .assignment = assign("1:used\n2:unused,never\n"), .log = note});
    if (*name != '\0') {
      EXPECT_EQ(this->where(name).group, name == std::string("used") ? 1 : -1);
    }
  }
  EXPECT_THAT(said,
              ::testing::ElementsAre(
                  "msstream: stream pool: no operation matched groups:2: 2:unused,never",
                  "msstream: stream pool: no operation matched groups:1: 1:used",
                  "msstream: stream pool: no operation matched groups:2: 2:unused,never"))
      << "nothing of a pool that was not used";
  auto const refuse = [](std::string const&) { throw std::runtime_error("the disk is full"); };
  for (auto const& log : std::vector<std::function<void(std::string const&)>>{nullptr, refuse}) {
    StreamPool const pool(this->device(),
                          {.groups = 4, .assignment = assign("1:unused"), .log = log});
    EXPECT_EQ(this->where("other").group, -1);
  }
}

TYPED_TEST(PlacementTest, options_come_from_the_environment) {
  auto const path = std::filesystem::path(::testing::TempDir()) / "msstream_placement_groups.txt";
  std::ofstream(path) << "1:op\n";
  ::setenv("MSSTREAM_STREAM_ASSIGNMENT", path.c_str(), 1);
  {
    StreamPool const pool(this->device(), {.groups = 2});
    EXPECT_EQ(this->where("op").group, 1);
  }
  std::ofstream(path) << "7:op\n";
  expect_refused([&] { StreamPool const pool(this->device(), {.groups = 2}); },
                 "MSSTREAM_STREAM_ASSIGNMENT: ",
                 ":1: expected a group from 0 to 1, found '7'");
  {
    StreamPool const pool(this->device(), {.groups = 2, .assignment = std::nullopt});
    EXPECT_EQ(this->where("op").group, -1) << "code comes before the environment";
  }
  ::unsetenv("MSSTREAM_STREAM_ASSIGNMENT");
  std::filesystem::remove(path);
  ::setenv("MSSTREAM_PROPAGATE_GROUPS", "1", 1);
  {
    StreamPool pool(this->device(), {.groups = 2});
    EXPECT_EQ(this->where_from("op", {this->written_on(pool[1])}).group, 1);
  }
  ::setenv("MSSTREAM_PROPAGATE_GROUPS", "perhaps", 1);
  expect_refused([&] { StreamPool const pool(this->device(), {.groups = 2}); }, "found 'perhaps'");
  ::unsetenv("MSSTREAM_PROPAGATE_GROUPS");
}

TYPED_TEST(PlacementTest, memory_is_reused_where_operations_are_placed) {
  StreamPool const pool(this->device(), {.groups = 4, .assignment = assign("2:scale")});
  auto const x = this->put(std::vector<float>(1000, 1.0F));
  auto y = ops::scale(x, 2.0F);
  for (int i = 0; i < 10; ++i) {
    y = ops::scale(y, 0.5F);
  }
  auto const memory = this->device().memory_statistics().reserved_bytes;
  auto const waits = this->device().wait_counts();
  for (int i = 0; i < 5000; ++i) {
    y = ops::scale(y, 0.999F);  // reuses the memory of the result before the last
  }
  EXPECT_EQ(this->device().memory_statistics().reserved_bytes, memory);
  EXPECT_EQ(this->device().wait_counts().needed, waits.needed);
}

TYPED_TEST(PlacementTest, threads_are_placed_while_the_pool_comes_and_goes) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  auto const shared = this->fresh();
  issue("write", writes(shared), [](auto) {});
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      NameScope const names(fmt::format("thread_{}", i));
      while (!over.load()) {
        auto const group = this->where_from("op", {shared}).group;
        if (group != -1 && group != i) {
          ADD_FAILURE() << "thread " << i << " placed on group " << group;
          return;
        }
      }
    });
  }
  // Keeps all groups alive, so that no stream of a later pool gets an index that another thread
  // still uses to look up a group.
  std::vector<StreamGroup<TypeParam>> groups;
  for (int turn = 0; turn < 20; ++turn) {
    StreamPool const pool(this->device(),
                          {.groups = 4,
                           .assignment = assign("0:thread_0/.*\n1:thread_1/.*\n2:thread_2/.*"),
                           .log = nullptr});
    for (int group = 0; group < pool.groups(); ++group) {
      groups.push_back(pool[group]);
    }
    EXPECT_EQ(this->where("thread_2/op").group, 2);
  }
  over.store(true);
  for (auto& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace msstream::testing
