// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"
#include "memory/device/device_state.hpp"
#include "memory/device/issue_observer.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/half_batches.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Tests that all other ranks are told at once when one rank alone refuses to go on: the timeout is
/// an hour, and the rank keeps its communicator until they have been told.
template <class R>
class Refusals : public RanksTest<R> {
 protected:
  static constexpr int kRefusing = 1;

  /// Calls `body(rank)` on the ranks, of which one refuses something with a message, and expects
  /// that the others lose it, with the message.
  template <class Body>
  static void expect_told(std::string const& message, Body const& body) {
    int const ranks = std::min(3, most_ranks<R>());
    std::latch told(ranks);
    on_ranks<R>(ranks,
                [&](Rank<R> const& rank) {
                  auto const call = [&] {
                    body(rank);
                    rank.communicator.synchronize();
                  };
                  if (rank.rank() == kRefusing) {
                    EXPECT_THAT(message_of<std::logic_error>(call), HasSubstr(message));
                  } else {
                    EXPECT_THAT(message_of<comm::PeerLost>(call),
                                AllOf(HasSubstr("rank 1 is lost: "), HasSubstr(message)));
                  }
                  told.arrive_and_wait();
                  EXPECT_EQ(to_host(rank.tensor(std::vector<float>{3}))[0], 3);
                  EXPECT_THAT(message_of<comm::PeerLost>([&] { barrier(rank.communicator); }),
                              HasSubstr(message));
                },
                {.timeout = std::chrono::hours(1)});
  }
};
TYPED_TEST_SUITE(Refusals, RankRuntimes, RuntimeNamesOfRanks);

/// Two weights, each in a bucket of its own, of which the refusing rank's loss may lack one.
template <Runtime R>
struct TwoWeights {
  Parameters<R> parameters;
  Tensor<float, R> first;
  Tensor<float, R> second;

  explicit TwoWeights(Device<R> const& device)
      : parameters(device),
        first(parameters.dense("first", {1, 1})),
        second(parameters.dense("second", {1, 1})) {}

  [[nodiscard]] Tensor<float, R> loss(GradientTape<R>& tape,
                                      Rank<R> const& rank,
                                      bool has_second) const {
    auto const x = rank.tensor(std::vector<float>{1}).reshaped({1, 1});
    tape.without_gradient(x);
    auto const of_first = ops::matmul(tape, x, first);
    return has_second ? ops::matmul(tape, of_first, second) : of_first;
  }
};

TYPED_TEST(Refusals, of_a_missing_gradient_are_told_at_once) {
  using R = TypeParam;
  this->expect_told(
      "parameter 'second' of shape [1, 1] has no gradient on rank 1", [](Rank<R> const& rank) {
        TwoWeights<R> const model(rank.device);
        DataParallel<R> const parallel(model.parameters, rank.communicator, {.bucket_bytes = 1});
        GradientTape<R> tape(rank.device);
        parallel.backward(tape, model.loss(tape, rank, rank.rank() != 1));
      });
}

TYPED_TEST(Refusals, of_a_part_whose_loss_is_no_scalar_are_told_at_once) {
  using R = TypeParam;
  this->expect_told("from a loss of shape [2]; expected a scalar", [](Rank<R> const& rank) {
    TwoWeights<R> const model(rank.device);
    DataParallel<R> const parallel(model.parameters, rank.communicator);
    GradientTape<R> tape(rank.device);
    (void)parallel.backward_in_parts(tape, [&](int /*part*/) {
      return std::optional(rank.rank() == 1 ? rank.tensor(std::vector<float>{1, 2})
                                            : model.loss(tape, rank, true));
    });
  });
}

TYPED_TEST(Refusals, of_a_missing_gradient_of_a_part_are_told_at_once) {
  using R = TypeParam;
  this->expect_told(
      "parameter 'second' of shape [1, 1] has no gradient on rank 1", [](Rank<R> const& rank) {
        TwoWeights<R> const model(rank.device);
        DataParallel<R> const parallel(model.parameters, rank.communicator);
        GradientTape<R> tape(rank.device);
        static_cast<void>(parallel.backward_in_parts(
            tape, [&](int part) { return std::optional(model.loss(tape, rank, part != 1)); }));
      });
}

TYPED_TEST(Refusals, of_a_model_are_told_at_once) {
  using R = TypeParam;
  this->expect_told("row 7 has no label", [](Rank<R> const& rank) {
    TwoWeights<R> const model(rank.device);
    DataParallel<R> const parallel(model.parameters, rank.communicator);
    GradientTape<R> tape(rank.device);
    static_cast<void>(parallel.backward_in_parts(tape, [&](int part) {
      if (part == 1) {
        throw std::invalid_argument("row 7 has no label");
      }
      return std::optional(model.loss(tape, rank, true));
    }));
  });
}

TYPED_TEST(Refusals, of_half_a_batch_are_told_at_once) {
  using R = TypeParam;
  int const ranks = std::min(3, most_ranks<R>());
  for (int const refused : {0, 1}) {
    std::latch made(ranks);
    std::latch told(ranks);
    std::latch looked(ranks);
    on_ranks<R>(ranks, [&](Rank<R> const& rank) {
      TwoWeights<R> const model(rank.device);
      HalfBatches<R> const halves(rank.device, model.parameters, rank.world);
      made.arrive_and_wait();  // a constructor that issues its broadcasts late would throw
      GradientTape<R> tape(rank.device);
      auto const call = [&] {
        static_cast<void>(halves.backward(tape, [&](int half) {
          if (rank.rank() == 1 && half == refused) {
            throw std::invalid_argument("row 7 has no label");
          }
          return std::optional(model.loss(tape, rank, true));
        }));
        halves.communicator(1).synchronize();
      };
      auto const lost = AllOf(HasSubstr("rank 1 is lost: "), HasSubstr("row 7 has no label"));
      if (rank.rank() == 1) {
        EXPECT_THAT(message_of<std::invalid_argument>(call), HasSubstr("row 7 has no label"));
      } else {
        EXPECT_THAT(message_of<comm::PeerLost>(call), lost);
      }
      told.arrive_and_wait();
      // In either half of a batch: no rank waits for collectives of the other half, which rank 1
      // does not issue.
      for (int half = 0; half < 2 && rank.rank() != 1; ++half) {
        EXPECT_THAT(message_of<comm::PeerLost>([&] { halves.communicator(half).synchronize(); }),
                    lost)
            << "half " << half << ", refused " << refused;
      }
      looked.arrive_and_wait();
    });
  }
}

/// Throws when a collective of a communicator has been issued on the device, as if there were no
/// memory for what follows, from begin() of the device's observers to its end().
class OutOfMemoryAfter final : public detail::IssueObserver {
 public:
  explicit OutOfMemoryAfter(std::string communicator) : communicator_(std::move(communicator)) {}

  void issued(detail::IssuedOperation const& /*operation*/) override {}
  void was_collective(detail::IssuedCollective const& collective) override {
    if (collective.communicator == communicator_) {
      throw OutOfMemory(1, "no memory for 1 byte");
    }
  }

 private:
  std::string communicator_;
};

// Half 0 has no samples on any rank: its first collective is that of its first bucket, behind its
// backward. That of half 1 gathers the losses, before its backward.
TYPED_TEST(Refusals, of_the_exchange_of_half_a_batch_are_told_at_once) {
  using R = TypeParam;
  int const ranks = std::min(3, most_ranks<R>());
  for (auto const* const refused : {"first half", "second half"}) {
    std::latch made(ranks);
    std::latch told(ranks);
    std::latch looked(ranks);
    on_ranks<R>(ranks, [&](Rank<R> const& rank) {
      TwoWeights<R> const model(rank.device);
      HalfBatches<R> const halves(rank.device, model.parameters, rank.world, {.bucket_bytes = 1});
      made.arrive_and_wait();  // a constructor that issues its broadcasts late would throw
      GradientTape<R> tape(rank.device);
      auto const call = [&] {
        static_cast<void>(halves.backward(tape, [&](int half) {
          return half == 0 ? std::nullopt : std::optional(model.loss(tape, rank, true));
        }));
        halves.communicator(1).synchronize();
      };
      auto const lost = AllOf(HasSubstr("rank 1 is lost: "), HasSubstr("no memory for 1 byte"));
      if (rank.rank() == 1) {
        auto& observers = rank.device.engine().state()->issue_observer;
        EXPECT_TRUE(observers.begin(std::make_shared<OutOfMemoryAfter>(refused)));
        EXPECT_THAT(message_of<OutOfMemory>(call), HasSubstr("no memory for 1 byte"));
        observers.end();
      } else {
        EXPECT_THAT(message_of<comm::PeerLost>(call), lost);
      }
      told.arrive_and_wait();
      for (int half = 0; half < 2 && rank.rank() != 1; ++half) {
        EXPECT_THAT(message_of<comm::PeerLost>([&] { halves.communicator(half).synchronize(); }),
                    lost)
            << "half " << half << ", refused in the " << refused;
      }
      looked.arrive_and_wait();
    });
  }
}

TYPED_TEST(Refusals, of_arguments_are_told_when_an_exception_ends_the_communicator) {
  using R = TypeParam;
  on_ranks<R>(
      std::min(3, most_ranks<R>()),
      [&](Rank<R> const& rank) {
        auto const call = [&] {
          comm::Communicator<R> const own(rank.device, rank.world, {.name = "own"});
          auto const x = rank.tensor(std::vector<std::int32_t>{1});
          all_reduce(own, x, rank.rank() == 1 ? comm::Reduction::mean : comm::Reduction::sum);
          own.synchronize();
        };
        if (rank.rank() == 1) {
          EXPECT_THAT(message_of<std::invalid_argument>(call), HasSubstr("the mean of int32"));
        } else {
          EXPECT_THAT(message_of<comm::PeerLost>(call),
                      AllOf(HasSubstr("rank 1 is lost: an exception has ended its communicator; "
                                      "the latest that it has refused: all_reduce: the mean of "
                                      "int32"),
                            HasSubstr("refusals_test.cpp:")));
        }
        barrier(rank.communicator);
        rank.communicator.synchronize();
      },
      {.timeout = std::chrono::hours(1)});
}

TYPED_TEST(Refusals, of_a_loss_that_is_no_scalar_leave_the_communicator_usable) {
  using R = TypeParam;
  on_ranks<R>(std::min(3, most_ranks<R>()),
              [](Rank<R> const& rank) {
                TwoWeights<R> const model(rank.device);
                DataParallel<R> const parallel(model.parameters, rank.communicator);
                GradientTape<R> tape(rank.device);
                auto const x = rank.tensor(std::vector<float>{1, 2});
                EXPECT_THAT(message_of<std::invalid_argument>([&] { parallel.backward(tape, x); }),
                            HasSubstr("a loss of shape [2]; expected a scalar"));
                parallel.backward(tape, model.loss(tape, rank, true));
                rank.communicator.synchronize();
              },
              {.timeout = std::chrono::hours(1)});
}

TYPED_TEST(Refusals, of_constructors_are_told_to_all_and_leave_the_communicator_usable) {
  using R = TypeParam;
  struct Refused {
    std::function<void(Rank<R> const&, Parameters<R> const&, bool refuses)> make;
    std::string message;
  };
  auto const specs = [](bool refuses) {
    return std::vector<TableSpec>{{.name = "users", .rows = refuses ? 0 : 4, .width = 2}};
  };
  std::vector<Refused> const all{
      {[](auto const& rank, auto const& parameters, bool refuses) {
         DataParallel<R>(
             parameters, rank.communicator, {.bucket_bytes = refuses ? 0 : std::int64_t{1} << 20});
       },
       "DataParallel: buckets of 0 bytes; expected at least 1"},
      {[](auto const& rank, auto const& parameters, bool refuses) {
         DataParallel<R>(parameters,
                         rank.communicator,
                         {.reproducible = refuses ? Reproducible::any_rank_count
                                                  : Reproducible::same_rank_count,
                          .parts = 7});
       },
       "DataParallel: batches of 7 parts"},
      {[&](auto const& rank, auto const&, bool refuses) {
         ShardedTables<R>(specs(refuses), rank.communicator, {.most_samples = 8});
       },
       "table 'users'"},
      {[&](auto const& rank, auto const&, bool refuses) {
         ShardedTables<R>(specs(false), rank.communicator, {.most_samples = refuses ? 0 : 8});
       },
       "ShardedTables: most_samples of 0"},
      {[&](auto const& rank, auto const&, bool refuses) {
         ShardedTables<R>(specs(false),
                          rank.communicator,
                          {.most_samples = 8},
                          plan_tables(specs(false), refuses ? 7 : rank.size()));
       },
       "ShardedTables: a plan for 7 ranks"},
      {[&](auto const& rank, auto const&, bool refuses) {
         auto large = specs(false);
         large[0].hotness = refuses ? std::int64_t{1} << 30 : 1;
         ShardedTables<R>(large, rank.communicator, {.most_samples = 8});
       },
       "ids in a message, with most_samples 8"}};
  on_ranks<R>(std::min(3, most_ranks<R>()),
              [&](Rank<R> const& rank) {
                TwoWeights<R> const model(rank.device);
                for (auto const& refused : all) {
                  bool const refuses = rank.rank() == 1;
                  auto const message = message_of<std::invalid_argument>(
                      [&] { refused.make(rank, model.parameters, refuses); });
                  EXPECT_THAT(message, HasSubstr(refused.message));
                  if (!refuses) {
                    EXPECT_THAT(message, HasSubstr("rank 1 has refused its arguments: "));
                  }
                  // Refused by all ranks, too.
                  EXPECT_THAT(message_of<std::invalid_argument>(
                                  [&] { refused.make(rank, model.parameters, true); }),
                              HasSubstr(refused.message));
                }
                rank.device.synchronize(barrier(rank.communicator));
                rank.communicator.synchronize();
              },
              {.timeout = std::chrono::hours(1)});
}

}  // namespace
}  // namespace msstream::testing
