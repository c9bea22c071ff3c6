// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/meeting_place.hpp"
#include "comm/part.hpp"
#include "comm/thread_world.hpp"

#include <msstream/comm/communicator.hpp>
#include <msstream/comm/world.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>

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
