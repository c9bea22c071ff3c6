// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using comm::PeerLost;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A timeout that no test reaches: the loss is told at once.
comm::CommunicatorOptions const kNoTimeout{.timeout = std::chrono::hours(1)};
/// A timeout that a test waits for. Its communicators are made once all ranks are there, so that
/// only what the test is about takes that long.
comm::CommunicatorOptions const kShort{.name = "short", .timeout = std::chrono::milliseconds(250)};

template <class R>
class Failure : public RanksTest<R> {};
TYPED_TEST_SUITE(Failure, RankRuntimes, RuntimeNamesOfRanks);

/// Returns the rank and the message of the PeerLost that `call` throws; -1 if it throws none.
template <class Call>
std::pair<int, std::string> loss_of(Call call) {
  try {
    call();
  } catch (PeerLost const& error) {
    return {error.rank(), error.what()};
  }
  ADD_FAILURE() << "expected a PeerLost";
  return {-1, {}};
}

template <Runtime R>
void expect_usable(Rank<R> const& rank) {
  auto const tensor = rank.tensor(std::vector<float>{3});
  EXPECT_EQ(to_host(tensor)[0], 3);
  rank.device.default_group().synchronize();
}

/// Returns a communicator with a short timeout, which all ranks make at once.
template <Runtime R>
comm::Communicator<R> short_communicator(Rank<R> const& rank) {
  rank.device.synchronize(barrier(rank.communicator));
  return comm::Communicator<R>(rank.device, rank.world, kShort);
}

TYPED_TEST(Failure, a_rank_that_throws_is_named_to_the_others_and_to_the_caller) {
  int const ranks = std::min(4, most_ranks<TypeParam>());
  int const thrower = ranks - 1;
  std::atomic<int> told{0};
  auto const [rank, message] = loss_of([&] {
    on_ranks<TypeParam>(
        ranks,
        [&](Rank<TypeParam> const& self) {
          auto const tensor = self.tensor(std::vector<float>{1});
          if (self.rank() == thrower) {
            all_reduce(self.communicator, tensor);
            self.communicator.synchronize();
            throw std::out_of_range("no such row");
          }
          auto const [lost, text] = loss_of([&] {
            all_reduce(self.communicator, tensor);
            all_reduce(self.communicator, tensor);
            self.communicator.synchronize();
          });
          EXPECT_EQ(lost, thrower);
          EXPECT_THAT(text,
                      AllOf(HasSubstr("all_reduce"),
                            HasSubstr("rank " + std::to_string(thrower) + " is lost")));
          expect_usable(self);
          told.fetch_add(1);
        },
        kNoTimeout);
  });
  EXPECT_EQ(told.load(), ranks - 1);
  EXPECT_EQ(rank, thrower);
  EXPECT_EQ(message,
            "rank " + std::to_string(thrower) + " of " + std::to_string(ranks) +
                " (threads) has failed: no such row");
}

TYPED_TEST(Failure, the_rank_that_failed_by_itself_is_named_although_others_throw_before) {
  auto const [rank, message] = loss_of([&] {
    on_ranks<TypeParam>(
        3,
        [&](Rank<TypeParam> const& self) {
          auto const tensor = self.tensor(std::vector<float>{1});
          if (self.rank() == 1) {
            throw std::runtime_error("the root of it");
          }
          all_reduce(self.communicator, tensor);
          static_cast<void>(to_host(tensor));  // throws the PeerLost out of the rank
        },
        kNoTimeout);
  });
  EXPECT_EQ(rank, 1);
  EXPECT_THAT(message, HasSubstr("the root of it"));
}

TYPED_TEST(Failure, a_rank_that_does_not_come_is_named_after_the_timeout) {
  std::atomic<int> told{0};
  on_ranks<TypeParam>(
      3,
      [&](Rank<TypeParam> const& self) {
        auto const tensor = self.tensor(std::vector<float>{1});
        auto const own = short_communicator(self);
        if (self.rank() == 1) {
          for (int seen = told.load(); seen < self.size() - 1; seen = told.load()) {
            told.wait(seen);
          }
          EXPECT_THROW(all_reduce(own, tensor), PeerLost);
          expect_usable(self);
          return;
        }
        auto const [lost, text] = loss_of([&] {
          all_reduce(own, tensor);
          own.synchronize();
        });
        EXPECT_EQ(lost, 1);
        EXPECT_THAT(text,
                    AllOf(HasSubstr("it did not come within 0.25 s to all_reduce of 1 float32"),
                          HasSubstr("failure_test.cpp:"),
                          HasSubstr("rank 1: not waiting, the latest here none")));
        expect_usable(self);
        told.fetch_add(1);
        told.notify_all();
      },
      kNoTimeout);
}

TYPED_TEST(Failure, a_rank_that_ends_its_communicator_is_named_at_once) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& self) {
    std::optional<comm::Communicator<TypeParam>> own(
        std::in_place,
        self.device,
        self.world,
        comm::CommunicatorOptions{.name = "own", .timeout = std::chrono::hours(1)});
    auto const tensor = self.tensor(std::vector<float>{1});
    all_reduce(*own, tensor);
    if (self.rank() == 0) {
      own.reset();
      return;
    }
    auto const [lost, text] = loss_of([&] {
      all_reduce(*own, tensor);
      own->synchronize();
    });
    EXPECT_EQ(lost, 0);
    EXPECT_THAT(text, HasSubstr("it has ended its communicator, and rank 1 needs it in all_red"));
    expect_usable(self);
  });
}

TYPED_TEST(Failure, a_root_that_ends_its_communicator_is_named_to_all_that_wait_for_its_broadcast) {
  on_ranks<TypeParam>(3, [](Rank<TypeParam> const& self) {
    constexpr int kRoot = 1;
    std::optional<comm::Communicator<TypeParam>> own(
        std::in_place,
        self.device,
        self.world,
        comm::CommunicatorOptions{.name = "own", .timeout = std::chrono::hours(1)});
    auto const tensor = self.tensor(std::vector<float>{1});
    broadcast(*own, tensor, kRoot);
    if (self.rank() == kRoot) {
      own.reset();
      return;
    }
    auto const [lost, text] = loss_of([&] {
      broadcast(*own, tensor, kRoot);
      own->synchronize();
    });
    EXPECT_EQ(lost, kRoot);
    EXPECT_THAT(text,
                AllOf(HasSubstr("rank 1 is lost: it has ended its communicator"),
                      HasSubstr("needs it in broadcast of 1 float32 from rank 1 at "),
                      HasSubstr("failure_test.cpp:")));
    expect_usable(self);
  });
}

TYPED_TEST(Failure, ending_a_communicator_waits_for_its_collectives) {
  on_ranks<TypeParam>(4, [](Rank<TypeParam> const& self) {
    for (int i = 0; i < 10; ++i) {
      auto const tensor = self.tensor(std::vector<float>{1});
      {
        comm::Communicator<TypeParam> const own(self.device, self.world, {.name = "own"});
        all_reduce(own, tensor);
      }
      EXPECT_EQ(to_host(tensor)[0], static_cast<float>(self.size()));
    }
  });
}

TYPED_TEST(Failure, the_constructor_names_a_rank_that_makes_no_communicator) {
  std::atomic<bool> told{false};
  comm::run_as_threads(2, [&](comm::World const& world) {
    if (world.rank() == 1) {
      told.wait(false);
      return;
    }
    auto const device = comm::device_of<TypeParam>(world);
    auto const [lost, text] =
        loss_of([&] { comm::Communicator<TypeParam> const own(device, world, kShort); });
    EXPECT_EQ(lost, 1);
    EXPECT_THAT(text,
                AllOf(HasSubstr("did not come within 0.25 s to the constructor"),
                      HasSubstr("failure_test.cpp:")));
    told.store(true);
    told.notify_all();
  });
}

TYPED_TEST(Failure, the_constructor_does_not_wait_for_a_rank_that_has_returned) {
  comm::run_as_threads(2, [&](comm::World const& world) {
    if (world.rank() == 0) {
      auto const device = comm::device_of<TypeParam>(world);
      auto const [lost, text] =
          loss_of([&] { comm::Communicator<TypeParam> const own(device, world, kNoTimeout); });
      EXPECT_EQ(lost, 1);
      EXPECT_THAT(text, HasSubstr("its function has returned"));
    }
  });
}

TYPED_TEST(Failure, the_constructor_tells_of_a_rank_that_throws) {
  auto const body = [](comm::World const& world) {
    if (world.rank() == 1) {
      throw std::runtime_error("gone");
    }
    auto const device = comm::device_of<TypeParam>(world);
    EXPECT_THAT(
        loss_of([&] { comm::Communicator<TypeParam> const own(device, world, kNoTimeout); }).second,
        HasSubstr("it threw: gone"));
  };
  EXPECT_THROW(comm::run_as_threads(2, body), PeerLost);
}

TYPED_TEST(Failure, every_wait_of_the_host_tells_a_failure_once) {
  using Wait = std::function<void(Rank<TypeParam> const&, Tensor<float, TypeParam> const&)>;
  std::vector<Wait> const waits = {
      [](auto const&, auto const& tensor) { static_cast<void>(to_host(tensor)); },
      [](auto const& self, auto const&) { self.device.default_group().synchronize(); },
      [](auto const& self, auto const& tensor) {
        self.device.synchronize(issue("read", reads(tensor), [](auto) {}));
      },
      [](auto const& self, auto const&) { self.communicator.group().synchronize(); }};
  for (auto const& wait : waits) {
    on_ranks<TypeParam>(
        2,
        [&](Rank<TypeParam> const& self) {
          auto const tensor = self.tensor(std::vector<float>{1});
          if (self.rank() == 0) {
            return;  // ends the communicator, which the other rank needs
          }
          self.device.synchronize(issue("write", writes(tensor), [](auto) {}));
          all_reduce(self.communicator, tensor);
          // The failure is there once the collective is complete.
          issue("read", reads(tensor), [](auto) {});
          self.communicator.group().compute().record().synchronize();
          EXPECT_EQ(loss_of([&] { wait(self, tensor); }).first, 0);
          wait(self, tensor);
          EXPECT_THROW(self.communicator.synchronize(), PeerLost);
        },
        kNoTimeout);
  }
}

TYPED_TEST(Failure, a_rank_that_waits_in_another_communicator_is_found_there) {
  on_ranks<TypeParam>(
      2,
      [](Rank<TypeParam> const& self) {
        comm::Communicator<TypeParam> const other(
            self.device, self.world, {.name = "other", .timeout = std::chrono::hours(1)});
        auto const own = short_communicator(self);
        auto const tensor = self.tensor(std::vector<float>{1});
        // The second collective of each rank needs the first one, which needs the other's second.
        auto const message = loss_of([&] {
                               if (self.rank() == 0) {
                                 all_reduce(own, tensor);
                                 all_reduce(other, tensor);
                               } else {
                                 all_reduce(other, tensor);
                                 all_reduce(own, tensor);
                               }
                               own.synchronize();
                             }).second;
        if (self.rank() == 0 &&
            !is_by_nccl<TypeParam>) {  // all are issued, which NCCL's ranks tell
          EXPECT_THAT(message,
                      AllOf(HasSubstr("communicator 'short'"),
                            HasSubstr("rank 1: waits in all_reduce of 1 float32 (sum)"),
                            HasSubstr("of communicator 'other'")));
        }
      },
      kNoTimeout);
}

TYPED_TEST(Failure, a_rank_that_throws_does_not_wait_for_its_collectives_in_flight) {
  auto const [rank, message] = loss_of([&] {
    on_ranks<TypeParam>(
        2,
        [&](Rank<TypeParam> const& self) {
          comm::Communicator<TypeParam> const other(
              self.device, self.world, {.name = "other", .timeout = std::chrono::hours(1)});
          auto const tensor = self.tensor(std::vector<float>{1});
          if (self.rank() == 1) {
            all_reduce(other, tensor);  // the rank 0 never comes to it
            throw std::runtime_error("gone");
          }
          all_reduce(self.communicator, tensor);
          static_cast<void>(to_host(tensor));
        },
        kNoTimeout);
  });
  EXPECT_EQ(rank, 1);
  EXPECT_THAT(message, HasSubstr("gone"));
}

TYPED_TEST(Failure, a_communicator_is_lost_with_its_world) {
  std::atomic<bool> lost{false};
  EXPECT_THROW(
      on_ranks<TypeParam>(
          2,
          [&](Rank<TypeParam> const& self) {
            if (self.rank() == 0) {
              throw std::runtime_error("gone");
            }
            EXPECT_EQ(loss_of([&] { self.device.synchronize(barrier(self.communicator)); }).first,
                      0);
            // The others must not wait for the rank in new communicators either.
            auto const [rank, text] = loss_of([&] {
              comm::Communicator<TypeParam> const next(self.device, self.world, kNoTimeout);
            });
            EXPECT_EQ(rank, 0);
            EXPECT_THAT(text, HasSubstr("it threw: gone"));
            lost = true;
          },
          kNoTimeout),
      PeerLost);
  EXPECT_TRUE(lost.load());
}

TYPED_TEST(Failure, wrong_arguments_are_refused_on_the_rank_itself) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& self) {
    auto const& own = self.communicator;
    auto const four = self.tensor(std::vector<float>(4));
    auto const three = self.tensor(std::vector<float>(3));
    auto const ids = self.tensor(std::vector<std::int32_t>(4));
    auto const counts = self.tensor(std::vector<std::int64_t>(2));
    Device<TypeParam> const other_device;
    Tensor<float, TypeParam> const elsewhere(other_device, {4});
    auto const refused = [](auto call, auto const&... words) {
      EXPECT_THAT(message_of<std::invalid_argument>(call), AllOf(HasSubstr(words)...));
    };
    auto const rows = four.reshaped({2, 2});
    auto const others = self.tensor(std::vector<float>(4)).reshaped({2, 2});
    auto const many = self.tensor(std::vector<std::int64_t>(3));
    auto const line = [](std::uint_least32_t number) {
      return "failure_test.cpp:" + std::to_string(number);
    };
    refused([&] { all_to_all(own, rows, many, others, counts); },
            "all_to_all: counts [3] on 2 ranks; expected an element a rank, at ",
            line(__LINE__ - 2));
    refused([&] { all_to_all(own, rows, counts, others, many); },
            "all_to_all: received [3]",
            line(__LINE__ - 2));
    refused([&] { all_reduce(own, ids, comm::Reduction::mean); }, "all_reduce", "mean", "int32");
    refused([&] { all_reduce(own, elsewhere); }, "all_reduce", "another device", "'world'");
    refused([&] { all_gather(own, four, three); }, "all_gather", "[4]", "[3]", "8 elements");
    refused([&] { all_gather(own, four.rows(1, 3), four); },
            "all_gather: reads elements",
            "overlap",
            line(__LINE__ - 3));
    refused([&] { reduce_scatter(own, three, three); }, "reduce_scatter", "[3]", "2 ranks");
    refused([&] { all_to_all(own, three, self.tensor(std::vector<float>(3))); }, "all_to_all");
    refused([&] { all_to_all(own, four, counts, three, counts); }, "all_to_all", "capacity");
    refused([&] { broadcast(own, four, 2); }, "broadcast", "rank 2", "has 2");
    refused([&] { broadcast(own, four, -1); }, "broadcast", "rank -1");
    refused([&] { send(own, four, self.rank()); }, "send", "to itself");
    refused([&] { receive(own, four, self.rank()); }, "receive", "from itself");
    refused([&] { send(own, four, 2); }, "send", "rank 2");
    using Own = comm::Communicator<TypeParam>;
    refused([&] { Own(self.device, self.world, {.name = ""}); }, "empty name");
    refused([&] { Own(self.device, self.world, {.name = "\x1fsplit"}); }, "0x1F");
    refused([&] { Own(self.device, self.world, {.timeout = std::chrono::seconds(0)}); },
            "timeout",
            "0 ns");
    // The collective that was refused did not reach the other rank.
    all_reduce(own, four);
    own.synchronize();
  });
}

}  // namespace
}  // namespace msstream::testing
