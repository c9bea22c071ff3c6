// SPDX-License-Identifier: Apache-2.0
// Tests of worlds that World::split() makes, and of their communicators.
#include "base/message_of.hpp"
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using comm::CollectiveError;
using comm::PeerLost;
using comm::World;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A timeout that no test reaches.
constexpr auto kUnreached = std::chrono::hours(1);

[[nodiscard]] std::string place_of(World const& world) {
  return std::to_string(world.rank()) + " of " + std::to_string(world.size());
}

TEST(Split, ranks_of_one_color_count_from_0) {
  comm::run_as_threads(8, [](World const& world) {
    // Groups of 3, 4 and 1 ranks.
    auto const own = world.split(world.rank() < 3 ? 7 : world.rank() < 7 ? 0 : 2147483647);
    constexpr std::array kPlaces{
        "0 of 3", "1 of 3", "2 of 3", "0 of 4", "1 of 4", "2 of 4", "3 of 4", "0 of 1"};
    EXPECT_EQ(place_of(own), kPlaces.at(static_cast<std::size_t>(world.rank())));
    EXPECT_EQ(own.local_rank(), world.local_rank());
    EXPECT_EQ(own.launch(), World::Launch::threads);
    if (world.rank() == 4) {
      EXPECT_EQ(to_string(own), "rank 1 of 4 (rank 4 of the whole world, threads, local rank 4)");
    }
  });
}

TEST(Split, keys_order_the_ranks_and_equal_keys_leave_their_order) {
  comm::run_as_threads(6, [](World const& world) {
    constexpr std::array kKeys{5, -1, 5, -3, 5, -1};
    constexpr std::array kRanks{3, 1, 4, 0, 5, 2};
    auto const i = static_cast<std::size_t>(world.rank());
    EXPECT_EQ(world.split(1, {.key = kKeys.at(i)}).rank(), kRanks.at(i));
  });
}

TEST(Split, a_rank_without_a_color_gets_no_world) {
  comm::run_as_threads(4, [](World const& world) {
    auto const even = world.split(world.rank() % 2 == 0 ? std::optional(0) : std::optional<int>());
    ASSERT_EQ(even.has_value(), world.rank() % 2 == 0);
    if (even) {
      EXPECT_EQ(place_of(*even), std::to_string(world.rank() / 2) + " of 2");
    }
    // Ranks with a plain color and others meet in one call.
    if (world.rank() == 0) {
      EXPECT_EQ(place_of(world.split(3)), "0 of 1");
    } else {
      EXPECT_FALSE(world.split(std::nullopt));
    }
  });
}

TEST(Split, worlds_are_split_again) {
  comm::run_as_threads(8, [](World const& world) {
    auto const half = world.split(world.rank() / 4, {.key = -world.rank()});
    auto const pair = half.split(half.rank() / 2);
    EXPECT_EQ(pair.size(), 2);
    EXPECT_EQ(pair.rank(), 1 - world.rank() % 2);
    EXPECT_THAT(to_string(pair),
                HasSubstr("(rank " + std::to_string(world.rank()) + " of the whole world"));
  });
}

TEST(Split, one_rank_gets_its_own_world) {
  World const world;
  EXPECT_EQ(place_of(world.split(5)), "0 of 1");
  EXPECT_FALSE(world.split(std::nullopt));
}

TEST(Split, bad_colors_are_told_to_all_ranks) {
  EXPECT_THAT(message_of<std::invalid_argument>([] { static_cast<void>(World().split(-1)); }),
              AllOf(HasSubstr("rank 0 has a color of -1 at "),
                    HasSubstr("split_test.cpp:"),
                    HasSubstr("expected 0 to 2147483647, or std::nullopt")));
  EXPECT_THAT(message_of<std::invalid_argument>([] {
                static_cast<void>(World().split(0, {.timeout = std::chrono::seconds(0)}));
              }),
              HasSubstr("World::split: a timeout of 0 ns; expected more than 0"));
  comm::run_as_threads(3, [](World const& world) {
    EXPECT_THAT(message_of<std::invalid_argument>(
                    [&] { static_cast<void>(world.split(world.rank() == 1 ? -7 : 0)); }),
                HasSubstr("rank 1 has a color of -7"));
    EXPECT_EQ(place_of(world.split(0)), place_of(world));  // the world stays usable
  });
}

TEST(Split, a_rank_that_does_not_come_is_named) {
  std::atomic<bool> is_told{false};
  comm::run_as_threads(2, [&](World const& world) {
    if (world.rank() == 1) {
      is_told.wait(false);
      return;
    }
    EXPECT_THAT(message_of<PeerLost>([&] {
                  static_cast<void>(world.split(0, {.timeout = std::chrono::milliseconds(1)}));
                }),
                AllOf(HasSubstr("World::split(), rank 0 of 2: rank 1 is lost: it did not come "
                                "within 0.001 s to World::split(), in which rank 0 waits at "),
                      HasSubstr("split_test.cpp:")));
    is_told = true;
    is_told.notify_all();
  });
  comm::run_as_threads(2, [&](World const& world) {
    if (world.rank() == 0) {
      EXPECT_THAT(
          message_of<PeerLost>([&] { static_cast<void>(world.split(0, {.timeout = kUnreached})); }),
          HasSubstr("its function has returned, and it did not come to World::split()"));
    }
  });
}

/// A rank with a world of its own kind, for calls that take a Rank.
template <Runtime R>
[[nodiscard]] Rank<R> member(Rank<R> const& rank, World const& world, std::string const& name) {
  return {world,
          rank.device,
          comm::Communicator<R>(rank.device, world, {.name = name, .timeout = kUnreached})};
}

/// Returns the sum of the numbers of all ranks.
template <Runtime R>
[[nodiscard]] std::int64_t summed(Rank<R> const& rank, std::int64_t number) {
  auto const tensor = rank.tensor(std::vector{number});
  all_reduce(rank.communicator, tensor);
  return to_host(tensor)[0];
}

template <class R>
class SplitRanks : public RanksTest<R> {
 protected:
  void SetUp() override {
    if (most_ranks<R>() < 4) {
      GTEST_SKIP() << R::name << ": needs four devices";
    }
  }
};
TYPED_TEST_SUITE(SplitRanks, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(SplitRanks, communicators_of_one_name_in_several_worlds_are_apart) {
  on_ranks<TypeParam>(4, [](Rank<TypeParam> const& rank) {
    auto const inside = member(rank, rank.world.split(rank.rank() / 2), "own");
    auto const between = member(rank, rank.world.split(rank.rank() % 2), "own");
    auto const all = member(rank, rank.world, "own");
    auto const backwards = member(rank, rank.world.split(0, {.key = -rank.rank()}), "own");
    auto const one = member(rank, inside.world.split(inside.rank()), "own");
    std::int64_t const number = 1LL << rank.rank();
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(summed(inside, number), rank.rank() < 2 ? 3 : 12);
      EXPECT_EQ(summed(between, number), rank.rank() % 2 == 0 ? 5 : 10);
      EXPECT_EQ(summed(all, number), 15);
      EXPECT_EQ(summed(one, number), number);
    }
    auto const gathered = rank.template poisoned<std::int64_t>(4);
    all_gather(backwards.communicator, rank.tensor(std::vector{number}), gathered);
    EXPECT_EQ(to_host(gathered), (std::vector<std::int64_t>{8, 4, 2, 1}));
    EXPECT_EQ(inside.communicator.exchange(std::to_string(rank.rank())),
              (std::vector{std::to_string(rank.rank() / 2 * 2),
                           std::to_string(rank.rank() / 2 * 2 + 1)}));
  });
}

TYPED_TEST(SplitRanks, a_captured_step_has_collectives_of_several_worlds) {
  on_ranks<TypeParam>(4, [](Rank<TypeParam> const& rank) {
    auto const inside = member(rank, rank.world.split(rank.rank() / 2), "own");
    auto const between = member(rank, rank.world.split(rank.rank() % 2), "own");
    auto const first = rank.tensor(std::vector<std::int64_t>{1});
    auto const second = rank.tensor(std::vector<std::int64_t>{1});
    CapturedStep<TypeParam> step(rank.device, [&] {
      all_reduce(inside.communicator, first);
      all_reduce(between.communicator, second);
      all_reduce(between.communicator, first);
    });
    step.replay();
    step.replay();
    EXPECT_EQ(to_host(first)[0], 16);
    EXPECT_EQ(to_host(second)[0], 4);
  });
}

TYPED_TEST(SplitRanks, collectives_that_differ_in_one_group_leave_the_other_alone) {
  on_ranks<TypeParam>(4, [](Rank<TypeParam> const& rank) {
    auto const inside = member(rank, rank.world.split(rank.rank() / 2), "inside");
    if (rank.rank() >= 2) {
      auto const x = rank.template poisoned<float>(6 + rank.rank());
      EXPECT_THAT(message_of<CollectiveError>([&] {
                    all_reduce(inside.communicator, x);
                    inside.communicator.synchronize();
                  }),
                  AllOf(HasSubstr("communicator 'inside' of ranks 2, 3 of the whole world: rank 0 "
                                  "has all_reduce of 8 float32 (sum) at "),
                        HasSubstr("rank 1 has all_reduce of 9 float32 (sum) at "),
                        HasSubstr("split_test.cpp:")));
    }
    // Now those collectives have failed for good.
    EXPECT_EQ(summed(rank, 1), 4);
    for (int i = 0; i < 5 && rank.rank() < 2; ++i) {
      EXPECT_EQ(summed(inside, 1), 2);
    }
    EXPECT_EQ(summed(member(rank, inside.world, "inside"), 1), 2);  // another one of the name
  });
}

TYPED_TEST(SplitRanks, a_rank_that_throws_is_lost_to_its_groups_alone) {
  std::atomic<int> told{0};
  std::atomic<int> went_on{0};
  std::atomic<bool> is_known{false};
  auto const run = [&] {
    on_ranks<TypeParam>(4, [&](Rank<TypeParam> const& rank) {
      auto const inside = member(rank, rank.world.split(rank.rank() / 2), "inside");
      auto const between = member(rank, rank.world.split(rank.rank() % 2), "between");
      if (rank.rank() == 3) {
        throw std::runtime_error("the root of it");
      }
      // Any wait for the device may tell the failure of any of its communicators.
      auto const lost = [&](Rank<TypeParam> const& in) {
        for (;;) {
          try {
            static_cast<void>(summed(in, 1));
          } catch (PeerLost const& error) {
            EXPECT_EQ(error.rank_in_whole(), 3);
            std::string const message = error.what();
            if (message.starts_with("communicator '" + in.communicator.name() + "'")) {
              told.fetch_add(1);
              return std::pair(error.rank(), message);
            }
          }
        }
      };
      if (rank.rank() == 1) {
        EXPECT_EQ(lost(between).first, 1);
      } else if (rank.rank() == 2) {
        auto const [number, message] = lost(inside);
        EXPECT_EQ(number, 1);
        EXPECT_THAT(message,
                    AllOf(HasSubstr("communicator 'inside' of ranks 2, 3 of the whole world, rank "
                                    "0 of 2"),
                          HasSubstr("rank 1 (3 of the whole world) is lost: ")));
      }
      EXPECT_EQ(lost(rank).first, 3);
      // The second one is made when the loss is known for sure.
      for (int i = 0; i < 2 && rank.rank() == 1; ++i) {
        EXPECT_THAT(
            message_of<PeerLost>([&] { static_cast<void>(member(rank, between.world, "later")); }),
            HasSubstr("rank 1 (3 of the whole world) is lost: it threw: the root of it"));
        is_known = true;
        is_known.notify_all();
      }
      is_known.wait(false);
      // Groups without the lost rank go on.
      if (rank.rank() < 2) {
        EXPECT_EQ(summed(inside, 1), 2);
      }
      if (rank.rank() % 2 == 0) {
        EXPECT_EQ(summed(between, 1), 2);
        EXPECT_EQ(summed(member(rank, between.world, "later"), 1), 2);
      }
      went_on.fetch_add(1);
    });
  };
  EXPECT_EQ(message_of<PeerLost>(run), "rank 3 of 4 (threads) has failed: the root of it");
  EXPECT_EQ(told.load(), 5);
  EXPECT_EQ(went_on.load(), 3);
}

TYPED_TEST(SplitRanks, blame_goes_through_groups_to_the_rank_that_failed_by_itself) {
  // Rank 0 waits for 2, which waits for 3, which throws when 2 has thrown.
  auto const run = [&] {
    on_ranks<TypeParam>(4, [&](Rank<TypeParam> const& rank) {
      auto const inside = member(rank, rank.world.split(rank.rank() / 2), "inside");
      auto const between = member(rank, rank.world.split(rank.rank() % 2), "between");
      if (rank.rank() == 3) {
        inside.communicator.any().give_up("no such row");
        EXPECT_THROW(static_cast<void>(member(rank, inside.world, "inside")), PeerLost);
        throw std::runtime_error("the root of it");
      }
      for (; rank.rank() != 1;) {
        static_cast<void>(summed(rank.rank() == 0 ? between : inside, 1));
      }
    });
  };
  EXPECT_EQ(message_of<PeerLost>(run), "rank 3 of 4 (threads) has failed: the root of it");
}

TYPED_TEST(SplitRanks, a_rank_that_waits_in_another_group_is_looked_for) {
  if (is_by_nccl<TypeParam>) {
    GTEST_SKIP() << "NCCL's ranks do not know where others wait";
  }
  std::atomic<bool> is_told{false};
  on_ranks<TypeParam>(4, [&](Rank<TypeParam> const& rank) {
    auto const between = member(rank, rank.world.split(rank.rank() % 2), "between");
    auto const inside_world = rank.world.split(rank.rank() / 2);
    rank.device.synchronize(barrier(rank.communicator));
    comm::Communicator<TypeParam> const inside(
        rank.device, inside_world, {.name = "inside", .timeout = std::chrono::milliseconds(250)});
    auto const x = rank.tensor(std::vector<float>{1});
    if (rank.rank() == 0) {
      all_reduce(between.communicator, x);  // rank 2 comes at the end
    } else if (rank.rank() == 1) {
      EXPECT_THAT(message_of<PeerLost>([&] {
                    all_reduce(inside, x);
                    inside.synchronize();
                  }),
                  AllOf(HasSubstr("rank 0 (0 of the whole world) is lost: it did not come within"),
                        HasSubstr("rank 0: waits in all_reduce of 1 float32 (sum) at "),
                        HasSubstr("of communicator 'between' of ranks 0, 2 of the whole world")));
      is_told = true;
      is_told.notify_all();
    } else if (rank.rank() == 2) {
      is_told.wait(false);
      all_reduce(between.communicator, x);
    }
    between.communicator.synchronize();
  });
}

/// A world of a random program: the ranks of the whole world that are its ranks, in their order.
struct Level {
  std::vector<int> color;  ///< by rank in the whole world; -1 for none
  std::vector<int> key;
};

/// Returns what the ranks of one color get, by rank in the whole world.
template <class Function>
void for_each_group(Level const& level, Function const& function) {
  std::map<int, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < level.color.size(); ++rank) {
    if (level.color[rank] >= 0) {
      groups[level.color[rank]].push_back(static_cast<int>(rank));
    }
  }
  for (auto& [color, ranks] : groups) {
    std::ranges::stable_sort(
        ranks, {}, [&](int rank) { return level.key[static_cast<std::size_t>(rank)]; });
    function(ranks);
  }
}

/// Random splits of the world, and collectives of their worlds and of the whole one in a random
/// order. All ranks compute what each of them must get.
TYPED_TEST(SplitRanks, random_programs_on_two_levels_get_what_each_rank_computes) {
  auto const seed = test_seed();
  constexpr int kPrograms = 25;
  for (int program = 0; program < kPrograms; ++program) {
    std::mt19937_64 choices(seed + static_cast<std::uint64_t>(program));
    int const most = std::min(8, most_ranks<TypeParam>());
    int const ranks = 2 + static_cast<int>(choices() % static_cast<std::uint64_t>(most - 1));
    on_ranks<TypeParam>(ranks, [&](Rank<TypeParam> const& rank) {
      auto engine = choices;  // equal on all ranks
      auto const below = [&](int bound) {
        return static_cast<int>(engine() % static_cast<std::uint64_t>(bound));
      };
      auto const self = static_cast<std::size_t>(rank.rank());
      std::vector<std::uint64_t> numbers;  // sums wrap around, as those of int64 do
      for (int i = 0; i < ranks; ++i) {
        numbers.push_back(static_cast<std::uint64_t>(i + 1));
      }
      std::vector<Level> levels;
      std::vector<std::optional<Rank<TypeParam>>> members;
      for (int i = 0; i < 3; ++i) {
        Level level;
        for (int of = 0; of < ranks; ++of) {
          level.color.push_back(below(4) - 1);
          level.key.push_back(below(3));
        }
        auto const world = rank.world.split(
            level.color[self] < 0 ? std::optional<int>() : std::optional(level.color[self]),
            {.key = level.key[self]});
        members.push_back(world ? std::optional(member(rank, *world, "own")) : std::nullopt);
        levels.push_back(std::move(level));
      }
      levels.push_back({std::vector<int>(numbers.size(), 0), std::vector<int>(numbers.size(), 0)});
      members.emplace_back(rank);
      auto const own = rank.tensor(std::vector{static_cast<std::int64_t>(numbers[self])});
      for (int step = 0; step < 40; ++step) {
        auto const at = static_cast<std::size_t>(below(4));
        bool const is_sum = below(2) == 0;
        auto const& with = members[at];
        if (with && is_sum) {
          all_reduce(with->communicator, own);
        } else if (with) {
          broadcast(with->communicator, own, with->size() - 1);
        }
        for_each_group(levels[at], [&](std::vector<int> const& group) {
          std::uint64_t result = 0;
          for (int const of : group) {
            auto const number = numbers[static_cast<std::size_t>(of)];
            result = is_sum ? result + number : number;
          }
          for (int const of : group) {
            numbers[static_cast<std::size_t>(of)] = result;
          }
        });
      }
      EXPECT_EQ(to_host(own)[0], static_cast<std::int64_t>(numbers[self])) << "program " << program;
    });
  }
}

}  // namespace
}  // namespace msstream::testing
