// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using comm::CollectiveError;
using comm::Reduction;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A timeout that no test reaches: what a test finds, it finds without waiting.
comm::CommunicatorOptions const kPatient{.timeout = std::chrono::hours(1)};

template <class R>
class Mismatch : public RanksTest<R> {};
TYPED_TEST_SUITE(Mismatch, RankRuntimes, RuntimeNamesOfRanks);

/// A collective that differs from the one of the other rank.
template <Runtime R>
struct Deviation {
  std::string what;
  std::function<void(Rank<R> const&)> of_rank_0;
  std::function<void(Rank<R> const&)> of_rank_1;
  std::string told_of_rank_0;
  std::string told_of_rank_1;
  /// Whether a rank may be done before the other one has come, if NCCL carries it out.
  bool ends_early = false;
};

/// Returns the message of the exception that `call` throws; empty if it throws none.
template <class Call>
std::string message_if_thrown(Call const& call) {
  try {
    call();
  } catch (std::exception const& error) {
    return error.what();
  }
  return {};
}

template <Element T, Runtime R>
Tensor<T, R> zeros_of(Rank<R> const& rank, std::int64_t count) {
  return rank.tensor(std::vector<T>(static_cast<std::size_t>(count)));
}

template <Runtime R>
std::vector<Deviation<R>> deviations() {
  using Me = Rank<R> const&;
  auto const reduce = [](Me me) { all_reduce(me.communicator, zeros_of<float>(me, 8)); };
  auto const gather = [](Me me) {
    all_gather(me.communicator, zeros_of<float>(me, 8), zeros_of<float>(me, 16));
  };
  auto const exchange = [](Me me) {
    all_to_all(me.communicator, zeros_of<float>(me, 8), zeros_of<float>(me, 8));
  };
  auto const exchange_counted = [](std::int64_t capacity, std::int64_t width) {
    return [=](Me me) {
      Shape const shape{2, capacity, width};
      all_to_all(me.communicator,
                 zeros_of<float>(me, shape.count()).reshaped(shape),
                 zeros_of<std::int64_t>(me, 2),
                 zeros_of<float>(me, shape.count()).reshaped(shape),
                 zeros_of<std::int64_t>(me, 2));
    };
  };
  auto const send_to_other = [](Me me) {
    send(me.communicator, zeros_of<float>(me, 8), 1 - me.rank());
  };
  return {
      {"kind", reduce, gather, "all_reduce of 8 float32 (sum)", "all_gather of 8 float32"},
      {"number of elements",
       reduce,
       [](Me me) { all_reduce(me.communicator, zeros_of<float>(me, 9)); },
       "all_reduce of 8 float32",
       "all_reduce of 9 float32"},
      {"element type",
       reduce,
       [](Me me) { all_reduce(me.communicator, zeros_of<std::int32_t>(me, 8)); },
       "of 8 float32",
       "of 8 int32"},
      {"element type of one size",
       [](Me me) { all_reduce(me.communicator, zeros_of<float16>(me, 8)); },
       [](Me me) { all_reduce(me.communicator, zeros_of<bfloat16>(me, 8)); },
       "of 8 float16",
       "of 8 bfloat16"},
      {"reduction",
       reduce,
       [](Me me) { all_reduce(me.communicator, zeros_of<float>(me, 8), Reduction::max); },
       "(sum)",
       "(max)"},
      {"reduction of reduce_scatter",
       [](Me me) {
         reduce_scatter(
             me.communicator, zeros_of<float>(me, 8), zeros_of<float>(me, 4), Reduction::min);
       },
       [](Me me) {
         reduce_scatter(
             me.communicator, zeros_of<float>(me, 8), zeros_of<float>(me, 4), Reduction::mean);
       },
       "reduce_scatter of 4 float32 (min)",
       "(mean)"},
      {"root",
       [](Me me) { broadcast(me.communicator, zeros_of<float>(me, 8), 0); },
       [](Me me) { broadcast(me.communicator, zeros_of<float>(me, 8), 1); },
       "broadcast of 8 float32 from rank 0",
       "from rank 1",
       true},
      {"order",
       [=](Me me) {
         reduce(me);
         exchange(me);
       },
       [=](Me me) {
         exchange(me);
         reduce(me);
       },
       "all_reduce",
       "all_to_all"},
      {"counts on one rank",
       exchange,
       exchange_counted(2, 2),
       "all_to_all of 8 float32 at",
       "all_to_all of 8 float32 with counts up to 2"},
      {"capacity", exchange_counted(4, 1), exchange_counted(2, 2), "up to 4", "up to 2"},
      {"a barrier", reduce, [](Me me) { barrier(me.communicator); }, "all_reduce", "barrier"},
      {"both send",
       send_to_other,
       send_to_other,
       "send of 8 float32 to rank 1",
       "send of 8 float32 to rank 0",
       true},
      {"both receive",
       [](Me me) { receive(me.communicator, zeros_of<float>(me, 8), 1); },
       [](Me me) { receive(me.communicator, zeros_of<float>(me, 8), 0); },
       "receive of 8 float32 from rank 1",
       "receive of 8 float32 from rank 0"},
      {"elements sent and received",
       send_to_other,
       [](Me me) { receive(me.communicator, zeros_of<float>(me, 7), 0); },
       "send of 8 float32",
       "receive of 7 float32",
       true},
      {"type sent and received",
       send_to_other,
       [](Me me) { receive(me.communicator, zeros_of<std::int32_t>(me, 8), 0); },
       "send of 8 float32",
       "receive of 8 int32",
       true},
      {"reduction of one order",
       [](Me me) { all_reduce(me.communicator, zeros_of<float>(me, 8), Reduction::min); },
       [](Me me) { all_reduce(me.communicator, zeros_of<float>(me, 8), Reduction::mean); },
       "(min)",
       "(mean)"},
      {"counts of one product",
       [](Me me) { all_gather(me.communicator, zeros_of<float>(me, 4), zeros_of<float>(me, 8)); },
       [](Me me) {
         reduce_scatter(me.communicator, zeros_of<float>(me, 8), zeros_of<float>(me, 4));
       },
       "all_gather of 4 float32",
       "reduce_scatter of 4 float32"},
      {"one too many in front",
       [=](Me me) {
         reduce(me);
         reduce(me);
         gather(me);
       },
       [=](Me me) {
         reduce(me);
         gather(me);
       },
       "all_reduce",
       "all_gather"},
      {"one left out",
       [=](Me me) {
         exchange(me);
         reduce(me);
       },
       [=](Me me) {
         exchange(me);
         barrier(me.communicator);
         reduce(me);
       },
       "all_reduce",
       "barrier"},
      {"send to a rank in another collective",
       send_to_other,
       reduce,
       "send of 8 float32 to rank 1",
       "all_reduce of 8 float32",
       true},
  };
}

TYPED_TEST(Mismatch, is_told_to_both_ranks_with_both_collectives_before_anything_hangs) {
  for (auto const& deviation : deviations<TypeParam>()) {
    std::barrier both_have_waited(2);
    std::atomic<int> told{0};
    on_ranks<TypeParam>(
        2,
        [&](Rank<TypeParam> const& rank) {
          SCOPED_TRACE(deviation.what);  // of this thread
          auto const issue_and_wait = [&] {
            (rank.rank() == 0 ? deviation.of_rank_0 : deviation.of_rank_1)(rank);
            rank.communicator.synchronize();
          };
          std::string message;
          if (is_by_nccl<TypeParam> && deviation.ends_early) {
            // The first rank may have waited before there was a difference, which is found when the
            // second one issues. Its next wait tells.
            message = message_if_thrown(issue_and_wait);
            told.fetch_add(message.empty() ? 0 : 1);
            both_have_waited.arrive_and_wait();
            EXPECT_GE(told.load(), 1) << "the rank that issues last is told at once";
            if (message.empty()) {
              message = message_of<CollectiveError>([&] { rank.communicator.synchronize(); });
            }
          } else {
            message = message_of<CollectiveError>(issue_and_wait);
          }
          EXPECT_THAT(message,
                      AllOf(HasSubstr("communicator 'world'"),
                            HasSubstr("rank 0 has "),
                            HasSubstr("and rank 1 has "),
                            HasSubstr(deviation.told_of_rank_0),
                            HasSubstr(deviation.told_of_rank_1),
                            HasSubstr("mismatch_test.cpp:")));
        },
        kPatient);
  }
}

TYPED_TEST(Mismatch, names_the_lines_of_both_calls) {
  std::atomic<unsigned> line_of_0{0};
  std::atomic<unsigned> line_of_1{0};
  std::string message;
  on_ranks<TypeParam>(
      2,
      [&](Rank<TypeParam> const& rank) {
        auto const tensor = zeros_of<float>(rank, 4);
        auto const told = message_of<CollectiveError>([&] {
          if (rank.rank() == 0) {
            line_of_0 = __LINE__ + 1U;
            all_reduce(rank.communicator, tensor);
          } else {
            line_of_1 = __LINE__ + 1U;
            broadcast(rank.communicator, tensor);
          }
          rank.communicator.synchronize();
        });
        if (rank.rank() == 0) {
          message = told;
        }
      },
      kPatient);
  EXPECT_THAT(message, HasSubstr("mismatch_test.cpp:" + std::to_string(line_of_0.load())));
  EXPECT_THAT(message, HasSubstr("mismatch_test.cpp:" + std::to_string(line_of_1.load())));
}

TYPED_TEST(Mismatch, leaves_the_device_and_other_communicators_usable) {
  on_ranks<TypeParam>(
      3,
      [](Rank<TypeParam> const& rank) {
        comm::Communicator<TypeParam> const before(rank.device, rank.world, {.name = "before"});
        auto const tensor = zeros_of<float>(rank, rank.rank() == 1 ? 5 : 4);
        EXPECT_THROW(
            {
              all_reduce(rank.communicator, tensor);
              static_cast<void>(to_host(tensor));
            },
            CollectiveError);
        // The host has been told once; the communicator itself tells it again.
        EXPECT_NO_THROW(static_cast<void>(to_host(tensor)));
        EXPECT_THROW(all_reduce(rank.communicator, tensor), CollectiveError);
        EXPECT_THROW(rank.communicator.synchronize(), CollectiveError);
        rank.device.default_group().synchronize();
        comm::Communicator<TypeParam> const after(rank.device, rank.world, {.name = "after"});
        for (auto const* const communicator : {&before, &after}) {
          auto const ones = rank.tensor(std::vector<float>{1});
          all_reduce(*communicator, ones);
          EXPECT_EQ(to_host(ones)[0], static_cast<float>(rank.size()));
        }
      },
      kPatient);
}

TYPED_TEST(Mismatch, counts_out_of_range_are_refused_on_all_ranks) {
  if (is_by_nccl<TypeParam>) {
    GTEST_SKIP() << "NCCL exchanges rows up to the capacity";
  }
  for (std::int64_t const bad : {std::int64_t{-1}, std::int64_t{5}}) {
    on_ranks<TypeParam>(
        2,
        [&](Rank<TypeParam> const& rank) {
          Shape const shape{2, 4};
          auto const counts = rank.tensor(std::vector<std::int64_t>{4, rank.rank() == 1 ? bad : 0});
          auto const message = message_of<CollectiveError>([&] {
            all_to_all(rank.communicator,
                       zeros_of<float>(rank, 8).reshaped(shape),
                       counts,
                       zeros_of<float>(rank, 8).reshaped(shape),
                       zeros_of<std::int64_t>(rank, 2));
            rank.communicator.synchronize();
          });
          EXPECT_THAT(message,
                      AllOf(HasSubstr("rank 1 has all_to_all of 8 float32"),
                            HasSubstr("mismatch_test.cpp:"),
                            HasSubstr("its count for rank 1 is " + std::to_string(bad) +
                                      ", outside [0, 4]")));
        },
        kPatient);
  }
}

}  // namespace
}  // namespace msstream::testing
