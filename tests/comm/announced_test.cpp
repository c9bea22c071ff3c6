// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/group.hpp"
#include "comm/meeting_place.hpp"
#include "comm/part.hpp"
#include "comm/thread_world.hpp"

#include <msstream/comm/communicator.hpp>
#include <msstream/comm/world.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using comm::CollectiveError;
using comm::PeerLost;
using comm::detail::CollectiveKind;
using comm::detail::MeetingPlace;
using comm::detail::ThreadWorld;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kNever = std::chrono::hours(1);

/// A place where ranks announce collectives that nothing carries out.
class Announced : public ::testing::Test {
 protected:
  void open(int ranks) {
    world = std::make_shared<ThreadWorld>(ranks);
    place = std::make_shared<MeetingPlace>(world, "world");
  }
  std::shared_ptr<ThreadWorld> world;
  std::shared_ptr<MeetingPlace> place;
};

TEST_F(Announced, collectives_go_together_however_far_a_rank_is_ahead) {
  open(3);
  for (int i = 0; i < 100; ++i) {
    place->announce(0, part(CollectiveKind::all_reduce, i));
    place->announce(0, part(CollectiveKind::barrier));
  }
  for (int i = 0; i < 100; ++i) {
    for (int const rank : {2, 1}) {
      place->announce(rank, part(CollectiveKind::all_reduce, i));
    }
    for (int const rank : {1, 2}) {
      place->announce(rank, part(CollectiveKind::barrier));
    }
  }
  EXPECT_FALSE(place->has_failed());
}

TEST_F(Announced, a_difference_is_told_with_both_collectives) {
  open(2);
  place->announce(0, part(CollectiveKind::all_reduce));
  place->announce(0, part(CollectiveKind::all_gather));
  place->announce(1, part(CollectiveKind::all_reduce));
  EXPECT_FALSE(place->has_failed());
  place->announce(1, part(CollectiveKind::barrier));
  for (int const rank : {0, 1}) {
    EXPECT_THAT(message_of<CollectiveError>([&] { place->rethrow_failure(rank, nullptr); }),
                AllOf(HasSubstr("rank 0 has all_gather of 8 float32"),
                      HasSubstr("and rank 1 has barrier"),
                      HasSubstr("announced_test.cpp:")));
  }
}

TEST_F(Announced, a_difference_of_two_ranks_is_told_while_a_third_is_behind) {
  open(3);
  for (int const rank : {0, 1}) {
    place->announce(rank, part(CollectiveKind::all_reduce));
  }
  place->announce(0, part(CollectiveKind::all_reduce));
  place->announce(1, part(CollectiveKind::all_gather));
  for (int const rank : {0, 1, 2}) {
    EXPECT_THAT(message_of<CollectiveError>([&] { place->rethrow_failure(rank, nullptr); }),
                AllOf(HasSubstr("rank 0 has all_reduce of 8 float32"),
                      HasSubstr("and rank 1 has all_gather")));
  }
}

TEST_F(Announced, a_difference_in_a_group_names_the_ranks_of_the_group) {
  world = std::make_shared<ThreadWorld>(4);
  auto const group =
      std::make_shared<comm::detail::Group const>(comm::detail::Group{"pair/", {3, 1}});
  place = std::make_shared<MeetingPlace>(world, "inside", group);
  for (int const rank : {0, 1}) {
    place->announce(rank, part(CollectiveKind::all_reduce));
  }
  EXPECT_FALSE(place->has_failed());
  place->announce(1, part(CollectiveKind::barrier));
  place->announce(0, part(CollectiveKind::all_gather));
  EXPECT_THAT(message_of<CollectiveError>([&] { place->rethrow_failure(1, nullptr); }),
              AllOf(HasSubstr("rank 0 has all_gather"), HasSubstr("and rank 1 has barrier")));
}

TEST_F(Announced, collectives_go_together_when_numbers_of_entries_begin_again) {
  open(2);
  constexpr int kMore = 70'000;  // than 16 bits count
  for (int i = 0; i < kMore; ++i) {
    place->announce(i % 2, part(CollectiveKind::all_reduce, i % 7));
    place->announce(1 - i % 2, part(CollectiveKind::all_reduce, i % 7));
  }
  ASSERT_FALSE(place->has_failed());
  place->announce(0, part(CollectiveKind::all_reduce, 3));
  place->announce(1, part(CollectiveKind::all_reduce, 4));
  EXPECT_TRUE(place->has_failed());
}

TEST_F(Announced, differences_of_every_kind_are_told) {
  using Kind = CollectiveKind;
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  auto const with = [](comm::detail::Part part, auto const& change) {
    change(part.what);
    return part;
  };
  auto const sum = part(Kind::all_reduce);
  auto const counted = with(part(Kind::all_to_all_counted), [](auto& what) { what.capacity = 2; });
  auto const placed = with(sum, [](auto& what) { what.input_place = what.output_place = 64; });
  std::vector<std::pair<comm::detail::Part, comm::detail::Part>> const pairs = {
      {sum, part(Kind::all_gather)},
      {sum, part(Kind::all_reduce, 9)},
      {sum, part(Kind::all_reduce, 8 + kLarge)},
      {part(Kind::all_reduce, kLarge), part(Kind::all_reduce, 2 * kLarge)},
      {sum, with(sum, [](auto& what) { what.dtype = DType::float16; })},
      {sum, with(sum, [](auto& what) { what.reduction = comm::Reduction::max; })},
      {part(Kind::broadcast, 8, 0), part(Kind::broadcast, 8, 1)},
      {part(Kind::broadcast, 8 + (std::int64_t{1} << 29), 0), part(Kind::broadcast, 8, 1)},
      {counted, with(counted, [](auto& what) { what.capacity = 4; })},
      {sum, placed},
      {placed, with(placed, [](auto& what) { what.output_place = 128; })},
      {placed, with(placed, [](auto& what) { what.input_place = -1; })},
  };
  for (std::size_t i = 0; i < 2 * pairs.size(); ++i) {
    auto const& [a, b] = pairs[i / 2];
    SCOPED_TRACE(comm::detail::to_string(a) + " and " + comm::detail::to_string(b));
    auto const& first = i % 2 == 0 ? a : b;
    open(3);
    for (int const rank : {0, 1, 2}) {
      place->announce(rank, first);
    }
    for (int const rank : {2, 0}) {
      place->announce(rank, first);
    }
    EXPECT_FALSE(place->has_failed());
    place->announce(1, i % 2 == 0 ? b : a);
    EXPECT_THAT(message_of<CollectiveError>([&] { place->rethrow_failure(0, nullptr); }),
                HasSubstr("and rank 1 has"));
  }
}

TEST_F(Announced, a_difference_is_told_however_far_a_rank_is_ahead) {
  // Within the board, beyond it, and beyond all that is compared without a lock.
  for (std::int64_t const ahead : {10, 64, 65, 1024, 1025, 40000}) {
    for (std::int64_t const wrong : {std::int64_t{0}, ahead / 2, ahead - 1}) {
      SCOPED_TRACE(ahead);
      open(3);
      for (std::int64_t i = 0; i < ahead; ++i) {
        place->announce(0, part(CollectiveKind::all_reduce, i));
      }
      for (std::int64_t i = 0; i < wrong; ++i) {
        place->announce(2, part(CollectiveKind::all_reduce, i));
        place->announce(1, part(CollectiveKind::all_reduce, i));
      }
      EXPECT_FALSE(place->has_failed());
      place->announce(2, part(CollectiveKind::all_reduce, wrong + 1));
      EXPECT_THAT(message_of<CollectiveError>([&] { place->rethrow_failure(1, nullptr); }),
                  AllOf(HasSubstr(fmt::format("rank 0 has all_reduce of {} float32", wrong)),
                        HasSubstr(fmt::format("rank 2 has all_reduce of {} float32", wrong + 1))));
    }
  }
}

TEST_F(Announced, ranks_that_announce_at_once_are_compared) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kCollectives = 5000;
  // The last collective of a rank differs, after one that is between two ranks, or not.
  for (int round = 0; round < 12; ++round) {
    open(kRanks);
    bool const differs = round % 2 == 1;
    auto const all = [&](int rank) {
      for (std::int64_t i = 0; i < kCollectives; ++i) {
        bool const fits = i % 7 != 0;  // on the board
        place->announce(rank, part(CollectiveKind::all_reduce, i + (fits ? 0 : 1LL << 40)));
      }
      if (round % 4 >= 2 && rank < 2) {
        place->announce(
            rank,
            rank == 0 ? part(CollectiveKind::send, 8, 1) : part(CollectiveKind::receive, 8, 0));
      }
      place->announce(rank, part(CollectiveKind::all_gather, differs && rank == round % 3 ? 9 : 8));
    };
    {
      std::vector<std::jthread> ranks;
      for (int rank = 0; rank < kRanks; ++rank) {
        ranks.emplace_back([&, rank] { all(rank); });
      }
    }
    EXPECT_EQ(place->has_failed(), differs) << round;
    if (differs) {
      EXPECT_THAT(message_of<CollectiveError>([&] { place->rethrow_failure(0, nullptr); }),
                  AllOf(HasSubstr("all_gather of 8"), HasSubstr("all_gather of 9")));
    }
  }
}

TEST_F(Announced, a_stall_after_many_collectives_names_the_latest_of_all_ranks) {
  for (std::int64_t const together : {1, 63, 64, 65, 200}) {
    for (std::int64_t const ahead : {1, 33, 63, 64, 65}) {
      SCOPED_TRACE(fmt::format("{} ahead after {}", ahead, together));
      open(2);
      for (std::int64_t i = 1; i <= together; ++i) {
        for (int const rank : {0, 1}) {
          place->announce(rank, part(CollectiveKind::all_reduce, i));
        }
      }
      place->announce(1, part(CollectiveKind::barrier));
      for (std::int64_t i = 1; i < ahead; ++i) {
        place->announce(1, part(CollectiveKind::all_gather, i));
      }
      place->fail_stalled(1, std::chrono::milliseconds(250));
      EXPECT_THAT(
          message_of<PeerLost>([&] { place->rethrow_failure(1, nullptr); }),
          AllOf(HasSubstr("rank 0 is lost: it did not come within 0.25 s to barrier"),
                HasSubstr(fmt::format("the latest here all_reduce of {} float32", together))));
    }
  }
}

TEST_F(Announced, send_and_receive_go_together_beside_a_third_rank) {
  open(3);
  place->announce(2, part(CollectiveKind::all_reduce));
  place->announce(1, part(CollectiveKind::receive, 8, 0));
  place->announce(1, part(CollectiveKind::all_reduce));
  place->announce(0, part(CollectiveKind::send, 8, 1));
  place->announce(0, part(CollectiveKind::all_reduce));
  EXPECT_FALSE(place->has_failed());
  place->announce(0, part(CollectiveKind::send, 8, 2));
  place->announce(2, part(CollectiveKind::send, 8, 0));
  EXPECT_THAT(message_of<CollectiveError>([&] { place->rethrow_failure(1, nullptr); }),
              AllOf(HasSubstr("rank 0 has send of 8 float32 to rank 2"),
                    HasSubstr("rank 2 has send of 8 float32 to rank 0")));
}

TEST_F(Announced, ranks_that_leave_after_all_their_collectives_are_not_lost) {
  constexpr int kRanks = 4;
  constexpr int kCollectives = 4;
  std::mt19937 random(1);
  for (int program = 0; program < 2000; ++program) {
    open(kRanks);
    std::vector<int> order;  // each rank once for each collective, and once to leave
    for (int i = 0; i < kRanks * (kCollectives + 1); ++i) {
      order.push_back(i % kRanks);
    }
    std::ranges::shuffle(order, random);
    std::vector<int> announced(kRanks);
    for (int const rank : order) {
      if (announced[static_cast<std::size_t>(rank)]++ < kCollectives) {
        place->announce(rank, part(CollectiveKind::all_reduce));
      } else {
        place->leave(rank);
      }
    }
    ASSERT_FALSE(place->has_failed()) << program;
  }
}

TEST_F(Announced, a_rank_that_has_left_is_lost_to_those_that_need_it) {
  open(2);
  place->announce(0, part(CollectiveKind::all_reduce));
  place->leave(0);  // its part of the collective may be complete before the other rank comes
  place->announce(1, part(CollectiveKind::all_reduce));
  EXPECT_FALSE(place->has_failed());
  place->announce(1, part(CollectiveKind::broadcast));
  EXPECT_THAT(
      message_of<PeerLost>([&] { place->rethrow_failure(1, nullptr); }),
      AllOf(HasSubstr("in broadcast"), HasSubstr("rank 0 is lost: it has ended its communicator")));
}

TEST_F(Announced, a_rank_that_leaves_is_lost_to_those_that_wait) {
  open(2);
  place->announce(1, part(CollectiveKind::all_reduce));
  EXPECT_FALSE(place->has_failed());
  place->leave(0);
  EXPECT_THAT(message_of<PeerLost>([&] { place->rethrow_failure(1, nullptr); }),
              HasSubstr("in all_reduce of 8 float32 (sum)"));
}

TEST_F(Announced, a_stall_is_the_loss_of_the_rank_that_has_not_come) {
  open(3);
  for (int const rank : {0, 2}) {
    place->announce(rank, part(CollectiveKind::all_reduce));
    place->set_in_flight(rank, true);
  }
  place->fail_stalled(0, std::chrono::milliseconds(250));
  EXPECT_THAT(message_of<PeerLost>([&] { place->rethrow_failure(0, nullptr); }),
              AllOf(HasSubstr("rank 1 is lost: it did not come within 0.25 s to all_reduce"),
                    HasSubstr("the latest here none")));
}

TEST_F(Announced, a_stall_in_a_replay_is_the_loss_of_a_rank_with_nothing_in_flight) {
  open(3);
  for (int const rank : {0, 1, 2}) {  // in a capture
    place->announce(rank, part(CollectiveKind::all_reduce));
  }
  place->set_in_flight(0, true);
  place->set_in_flight(1, true);
  place->fail_stalled(0, std::chrono::milliseconds(250));
  EXPECT_THAT(message_of<PeerLost>([&] { place->rethrow_failure(1, nullptr); }),
              AllOf(HasSubstr("rank 2 is lost: it has no collective in flight"),
                    HasSubstr("all_reduce of 8 float32")));
}

TEST_F(Announced, a_stall_of_all_ranks_is_told_as_such) {
  open(2);
  for (int const rank : {0, 1}) {
    place->announce(rank, part(CollectiveKind::all_reduce));
    place->set_in_flight(rank, true);
  }
  place->fail_stalled(1, std::chrono::milliseconds(250));
  EXPECT_THAT(message_of<PeerLost>([&] { place->rethrow_failure(1, nullptr); }),
              HasSubstr("all ranks have collectives in flight, none of which has ended"));
}

TEST_F(Announced, all_ranks_get_the_value_of_rank_0) {
  open(3);
  {
    std::jthread const one([&] { EXPECT_EQ(place->share(1, "", kNever), "the value"); });
    std::jthread const two([&] { EXPECT_EQ(place->share(2, "", kNever), "the value"); });
    EXPECT_EQ(place->share(0, "the value", kNever), "the value");
  }
  open(2);
  EXPECT_THAT(
      message_of<PeerLost>([&] { (void)place->share(1, "", std::chrono::milliseconds(1)); }),
      HasSubstr("rank 0 is lost: it did not make the communicator within 0.001 s"));
}

}  // namespace
}  // namespace msstream::testing
