// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/group.hpp"
#include "comm/part.hpp"
#include "comm/peers.hpp"
#include "comm/process_store.hpp"
#include "comm/raw_connection.hpp"
#include "comm/world_access.hpp"

#include <msstream/comm/communicator.hpp>
#include <msstream/comm/world.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using comm::PeerLost;
using comm::World;
using comm::detail::CollectiveKind;
using comm::detail::Peers;
using comm::detail::ProcessStore;
using comm::detail::TcpStoreServer;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Ranks that share a store over TCP, as processes do. Each has a ProcessStore of its own.
class ProcessPeersTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  void SetUp() override {
    processes.push_back(
        std::make_shared<ProcessStore>(std::pair(std::string(kLocal), 0), 0, kLong));
    for (int rank = 1; rank < kRanks; ++rank) {
      processes.push_back(std::make_shared<ProcessStore>(
          std::pair(std::string(kLocal), processes[0]->port()), rank, kLong));
    }
  }

  [[nodiscard]] std::shared_ptr<Peers> join(int rank, std::chrono::nanoseconds timeout = kLong) {
    auto const world = comm::detail::WorldAccess::make(rank, kRanks, rank, World::Launch::torchrun);
    return comm::detail::make_process_peers(processes[static_cast<std::size_t>(rank)],
                                            world,
                                            "world",
                                            timeout,
                                            std::source_location::current());
  }
  /// Calls `body(peers)` on a thread for each rank.
  void on_all(std::function<void(Peers&)> const& body) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([this, rank, &body] { body(*join(rank)); });
    }
  }
  /// Looks until the peers have failed, and returns the rank and the message of the loss.
  [[nodiscard]] static std::pair<int, std::string> loss_of(Peers& peers, bool is_in_flight) {
    while (!peers.has_failed()) {
      peers.look(is_in_flight);
    }
    try {
      peers.rethrow_failure(nullptr);
    } catch (PeerLost const& error) {
      return {error.rank(), error.what()};
    }
    return {-1, {}};
  }

  std::vector<std::shared_ptr<ProcessStore>> processes;
};

TEST_F(ProcessPeersTest, all_ranks_get_the_value_of_rank_0_in_each_generation) {
  for (int generation = 0; generation < 3; ++generation) {
    auto const value = "value " + std::to_string(generation);
    on_all([&](Peers& peers) {
      EXPECT_EQ(peers.share(peers.rank() == 0 ? value : ""), value);
      EXPECT_FALSE(peers.has_failed());
      peers.leave();
    });
  }
}

TEST_F(ProcessPeersTest, all_ranks_get_the_texts_of_all_in_each_exchange) {
  on_all([](Peers& peers) {
    for (int round = 0; round < 5; ++round) {
      std::vector<std::string> expected;
      for (int other = 0; other < peers.size(); ++other) {
        expected.push_back("rank " + std::to_string(other) + " in " + std::to_string(round));
      }
      EXPECT_EQ(peers.exchange(expected[static_cast<std::size_t>(peers.rank())]), expected);
    }
    EXPECT_FALSE(peers.has_failed());
    peers.leave();
  });
}

TEST_F(ProcessPeersTest, a_rank_may_leave_right_after_an_exchange) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    on_all([](Peers& peers) {
      EXPECT_NO_THROW(static_cast<void>(peers.exchange("")));
      peers.leave();
    });
  }
}

TEST_F(ProcessPeersTest, the_first_loss_counts_on_all_ranks) {
  on_all([](Peers& peers) {
    if (peers.rank() == 2) {
      peers.lose(2, "an exception has ended its communicator");
      peers.lose(1, "too late");
    }
    auto const [rank, message] = loss_of(peers, false);
    EXPECT_EQ(rank, 2);
    EXPECT_THAT(message,
                AllOf(HasSubstr("communicator 'world', rank " + std::to_string(peers.rank())),
                      HasSubstr("rank 2 is lost: an exception has ended its communicator")));
  });
}

TEST_F(ProcessPeersTest, groups_look_for_their_own_ranks_and_need_no_store) {
  auto const group =
      std::make_shared<comm::detail::Group const>(comm::detail::Group{"\x1f"
                                                                      "0.1/",
                                                                      {2, 1}});
  auto const join_group = [&](int rank) {
    auto const whole = group->members[static_cast<std::size_t>(rank)];
    auto const world = comm::detail::WorldAccess::make(whole, 3, whole, World::Launch::torchrun);
    return comm::detail::make_process_peers(processes[static_cast<std::size_t>(whole)],
                                            comm::detail::WorldAccess::in_group(world, rank, group),
                                            "inside",
                                            kLong,
                                            std::source_location::current());
  };
  std::shared_ptr<Peers> of_1;
  std::jthread other([&] { of_1 = join_group(1); });
  auto const of_2 = join_group(0);
  other.join();
  processes[0]->store().set(TcpStoreServer::kGone, "0");
  of_2->look(true);
  EXPECT_FALSE(of_2->has_failed());
  processes[0]->store().set(TcpStoreServer::kGone, "0 1");
  EXPECT_EQ(loss_of(*of_2, true),
            std::pair(1,
                      std::string("communicator 'inside' of ranks 2, 1 of the whole world, rank 0 "
                                  "of 2: rank 1 (1 of the whole world) is lost: its process has "
                                  "ended")));
  processes[0].reset();  // the store ends, which a group without rank 0 survives
  for (int i = 0; i < 10; ++i) {
    of_1->look(true);
  }
  EXPECT_FALSE(of_1->has_failed());
}

TEST_F(ProcessPeersTest, a_process_that_dies_is_lost) {
  std::jthread const dying([&] {
    auto const peers = join(1);
    RawConnection const killed(processes[0]->port());
    killed.send(hello_of('1'));
    killed.await();
  });
  std::jthread const third([&] { EXPECT_EQ(loss_of(*join(2), false).first, 1); });
  auto const [rank, message] = loss_of(*join(0), true);
  EXPECT_EQ(rank, 1);
  EXPECT_THAT(message, HasSubstr("its process has ended"));
}

TEST_F(ProcessPeersTest, a_rank_that_has_left_is_lost_to_those_that_need_it) {
  on_all([](Peers& peers) {
    if (peers.rank() == 1) {
      peers.leave();
    } else {
      peers.announce(part(CollectiveKind::all_reduce));
      EXPECT_THAT(loss_of(peers, true).second, HasSubstr("rank 1 is lost: it has ended its comm"));
    }
  });
}

constexpr int kLooks = 100;  // far more than those after which a rank that is needed is lost

/// Returns a rank's part of a send to another rank, or of a receive from it.
comm::detail::Part between(CollectiveKind kind, int peer) {
  return part(kind, 8, peer);
}

TEST_F(ProcessPeersTest, a_rank_that_has_left_is_not_lost_to_those_that_need_others) {
  std::latch left(kRanks);
  on_all([&](Peers& peers) {
    peers.announce(part(CollectiveKind::all_reduce));  // which rank 1 has been part of
    if (peers.rank() == 1) {
      peers.leave();
    }
    left.arrive_and_wait();
    if (peers.rank() == 1) {
      return;
    }
    peers.announce(peers.rank() == 0 ? between(CollectiveKind::send, 2)
                                     : between(CollectiveKind::receive, 0));
    for (int look = 0; look < kLooks; ++look) {
      peers.look(true);
    }
    EXPECT_FALSE(peers.has_failed());
    static_cast<void>(peers.share("rank 0 has looked"));
    if (peers.rank() == 2) {
      peers.announce(between(CollectiveKind::receive, 1));
      EXPECT_EQ(loss_of(peers, true).first, 1);
    }
  });
}

// The latest collective of both others does not need the rank that has left.
TEST_F(ProcessPeersTest, a_rank_that_has_left_is_lost_to_any_collective_in_flight_that_needs_it) {
  for (bool const is_between_two : {false, true}) {
    std::latch left(kRanks);
    std::latch looked(kRanks);
    on_all([&](Peers& peers) {
      auto const announce_one_that_needs_rank_2 = [&] {
        if (peers.rank() == 0 && is_between_two) {
          peers.announce(between(CollectiveKind::send, 2));
        } else if (peers.rank() == 2 && is_between_two) {
          peers.announce(between(CollectiveKind::receive, 0));
        } else if (!is_between_two) {
          peers.announce(part(CollectiveKind::all_reduce));
        }
      };
      announce_one_that_needs_rank_2();  // which rank 2 is part of, but not of the next one
      if (peers.rank() == 2) {
        peers.leave();
      }
      left.arrive_and_wait();
      if (peers.rank() == 0) {
        announce_one_that_needs_rank_2();
        peers.announce(between(CollectiveKind::send, 1));
        for (int look = 0; look < kLooks; ++look) {
          peers.look(true);
        }
        EXPECT_THAT(message_of<PeerLost>([&] { peers.rethrow_failure(nullptr); }),
                    HasSubstr("rank 2 is lost: it has ended its communicator"))
            << is_between_two;
      }
      looked.arrive_and_wait();
    });
  }
}

// A rank may issue what others replay, and what replays run is not announced.
TEST_F(ProcessPeersTest, a_rank_that_has_left_after_a_capture_is_not_lost_by_its_count) {
  for (int const capturing : {0, 2}) {
    std::latch left(kRanks);
    on_all([&](Peers& peers) {
      auto own = part(CollectiveKind::all_reduce);
      own.is_captured = peers.rank() == capturing;
      peers.announce(own);
      if (peers.rank() == 2) {
        peers.leave();
      }
      left.arrive_and_wait();
      if (peers.rank() == 0) {
        peers.announce(part(CollectiveKind::all_reduce));  // by a replay on rank 2
        peers.announce(between(CollectiveKind::send, 1));
        for (int look = 0; look < kLooks; ++look) {
          peers.look(true);
        }
        EXPECT_FALSE(peers.has_failed()) << capturing;
      }
    });
  }
}

TEST_F(ProcessPeersTest, a_stall_names_the_rank_with_nothing_in_flight_and_what_all_have_issued) {
  on_all([&](Peers& peers) {
    if (peers.rank() != 1) {
      peers.announce(part(CollectiveKind::all_reduce));
    }
    peers.look(peers.rank() != 1);
    static_cast<void>(peers.share("all have told"));
    if (peers.rank() == 0) {
      peers.time_out(std::chrono::milliseconds(250));
    }
    auto const [rank, message] = loss_of(peers, peers.rank() != 1);
    EXPECT_EQ(rank, 1);
    EXPECT_THAT(message,
                AllOf(HasSubstr("no collective of rank 0 has ended within 0.25 s"),
                      HasSubstr("the latest issued number 1, all_reduce of 8 float32 (sum) at"),
                      HasSubstr("rank 1: no collective in flight, the latest issued none")));
  });
}

TEST_F(ProcessPeersTest, the_constructor_names_a_rank_that_does_not_come) {
  std::jthread const one([&] { EXPECT_THROW((void)join(1), PeerLost); });
  EXPECT_THAT(message_of<PeerLost>([&] { (void)join(0, std::chrono::milliseconds(250)); }),
              AllOf(HasSubstr("did not come within 0.25 s to the constructor"),
                    HasSubstr("process_peers_test.cpp:")));
}

TEST_F(ProcessPeersTest, the_end_of_rank_0_is_a_loss_only_to_collectives_in_flight) {
  std::shared_ptr<Peers> first;
  std::shared_ptr<Peers> second;
  {
    std::jthread const zero([&] { join(0)->leave(); });
    std::jthread const one([&] { first = join(1); });
    std::jthread const two([&] { second = join(2); });
  }
  processes[0] = nullptr;
  for (int i = 0; i < 20; ++i) {
    first->look(false);
  }
  EXPECT_FALSE(first->has_failed());
  EXPECT_EQ(loss_of(*second, true).first, 0);
}

TEST_F(ProcessPeersTest, calls_that_other_ranks_wait_for_name_the_rank_that_served_the_store) {
  std::shared_ptr<Peers> peers;
  {
    std::jthread const zero([&] { static_cast<void>(join(0)); });
    std::jthread const one([&] { peers = join(1); });
    std::jthread const two([&] { static_cast<void>(join(2)); });
  }
  processes[0] = nullptr;
  auto const lost = AllOf(HasSubstr("communicator 'world', rank 1 of 3: rank 0 is lost: "),
                          HasSubstr("the connection to the store of rank 0"));
  EXPECT_THAT(message_of<PeerLost>([&] { static_cast<void>(peers->exchange("own")); }), lost);
  EXPECT_TRUE(peers->has_failed());
  EXPECT_THAT(message_of<PeerLost>([&] { static_cast<void>(join(1)); }), lost);
}

/// Sets variables of the environment for a test.
class AddressOfStore : public ::testing::Test {
 protected:
  void TearDown() override {
    for (auto const* const variable : {"MASTER_ADDR", "MASTER_PORT", "MSSTREAM_COMM_PORT"}) {
      ::unsetenv(variable);
    }
  }
  [[nodiscard]] static std::pair<std::string, int> address() {
    return comm::detail::address_of_store(
        comm::detail::WorldAccess::make(1, 2, 1, World::Launch::torchrun));
  }
};

TEST_F(AddressOfStore, is_at_the_port_after_that_of_the_launcher_or_at_its_own) {
  ::setenv("MASTER_ADDR", "node7", 1);
  ::setenv("MASTER_PORT", "29500", 1);
  EXPECT_EQ(address(), std::pair(std::string("node7"), 29501));
  ::setenv("MASTER_PORT", "65535", 1);
  EXPECT_EQ(address().second, 65534);
  ::setenv("MSSTREAM_COMM_PORT", "4000", 1);
  EXPECT_EQ(address().second, 4000);
}

TEST_F(AddressOfStore, needs_the_variables_and_names_them) {
  EXPECT_THAT(message_of<std::invalid_argument>([] { (void)address(); }),
              AllOf(HasSubstr("rank 1 of 2 (torchrun"),
                    HasSubstr("MASTER_ADDR"),
                    HasSubstr("MASTER_PORT"),
                    HasSubstr("MSSTREAM_COMM_PORT")));
  ::setenv("MASTER_ADDR", "node7", 1);
  ::setenv("MASTER_PORT", "eighty", 1);
  EXPECT_THAT(message_of<std::invalid_argument>([] { (void)address(); }),
              AllOf(HasSubstr("MASTER_PORT"), HasSubstr("1 to 65535"), HasSubstr("'eighty'")));
}

}  // namespace
}  // namespace msstream::testing
