// SPDX-License-Identifier: Apache-2.0
// Random programs of collectives on several communicators, with other operations between them. All
// ranks compute what each of them must get.
#include "comm/ranks.hpp"
#include "memory/journal.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kTensors = 4;
constexpr int kSteps = 40;

/// One step of a program, with equal choices on all ranks.
struct ProgramStep {
  enum class Kind : std::uint8_t { own, reduce, broadcast, exchange, pass } kind;
  std::size_t communicator;
  std::size_t from;
  std::size_t to;  ///< another tensor than `from`
  int root;
  int partner;  ///< another rank than `root`
  comm::Reduction reduction;
};

std::vector<ProgramStep> random_program(std::mt19937_64& engine, int ranks) {
  auto const below = [&](std::size_t bound) { return static_cast<std::size_t>(engine() % bound); };
  std::vector<ProgramStep> steps;
  for (int i = 0; i < kSteps; ++i) {
    auto const from = below(kTensors);
    auto const root = static_cast<int>(below(static_cast<std::size_t>(ranks)));
    auto const others = 1 + below(static_cast<std::size_t>(ranks - 1));
    steps.push_back(
        {static_cast<ProgramStep::Kind>(below(5)),
         below(2),
         from,
         (from + 1 + below(kTensors - 1)) % kTensors,
         root,
         (root + static_cast<int>(others)) % ranks,
         std::array{comm::Reduction::sum, comm::Reduction::max, comm::Reduction::min}[below(3)]});
  }
  return steps;
}

/// The elements of one rank's tensors.
using State = std::vector<Numbers>;

State first_state(int rank, int ranks) {
  State state;
  for (std::size_t tensor = 0; tensor < kTensors; ++tensor) {
    Numbers numbers;
    for (int i = 0; i < ranks; ++i) {
      numbers.push_back(static_cast<std::int64_t>(tensor) * 100 + rank * 10 + i);
    }
    state.push_back(numbers);
  }
  return state;
}

std::int64_t combine(std::int64_t a, std::int64_t b, comm::Reduction reduction) {
  return reduction == comm::Reduction::sum                ? a + b
         : (reduction == comm::Reduction::max) == (a > b) ? a
                                                          : b;
}

/// The work of a step that is no collective: keeps the elements small, and different.
void mix(std::int64_t* to, std::int64_t const* from, int count) {
  for (int i = 0; i < count; ++i) {
    to[i] = (to[i] * 3 + from[i] + i) % 100'003;
  }
}

void compute(ProgramStep const& step, std::vector<State>& states) {
  auto const ranks = states.size();
  auto const before = states;
  switch (step.kind) {
    case ProgramStep::Kind::own:
      for (auto& state : states) {
        mix(state[step.to].data(), state[step.from].data(), static_cast<int>(ranks));
      }
      return;
    case ProgramStep::Kind::reduce:
      for (std::size_t i = 0; i < ranks; ++i) {
        auto result = before[0][step.from][i];
        for (std::size_t rank = 1; rank < ranks; ++rank) {
          result = combine(result, before[rank][step.from][i], step.reduction);
        }
        for (auto& state : states) {
          state[step.from][i] = result;
        }
      }
      return;
    case ProgramStep::Kind::broadcast:
      for (auto& state : states) {
        state[step.from] = before[static_cast<std::size_t>(step.root)][step.from];
      }
      return;
    case ProgramStep::Kind::exchange:
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        for (std::size_t other = 0; other < ranks; ++other) {
          states[rank][step.to][other] = before[other][step.from][rank];
        }
      }
      return;
    case ProgramStep::Kind::pass:
      states[static_cast<std::size_t>(step.partner)][step.to] =
          before[static_cast<std::size_t>(step.root)][step.from];
      return;
  }
}

/// A rank that runs programs: its tensors, two stream groups, and two communicators.
template <Runtime R>
class ProgramRank {
 public:
  /// The first communicator of the rank waits long, so that all ranks begin together.
  ProgramRank(Rank<R> const& rank, std::chrono::nanoseconds timeout)
      : rank_(rank), pool_(rank.device, {.groups = 2}) {
    rank.device.synchronize(barrier(rank.communicator));
    for (char const* const name : {"first", "second"}) {
      communicators_.emplace_back(
          rank.device, rank.world, comm::CommunicatorOptions{.name = name, .timeout = timeout});
    }
    for (auto const& numbers : first_state(rank.rank(), rank.size())) {
      tensors_.push_back(rank.tensor(numbers));
    }
  }

  void run(ProgramStep const& step, int group) {
    StreamScope const scope(pool_[group]);
    auto const& communicator = communicators_[step.communicator];
    auto const& from = tensors_[step.from];
    auto const& to = tensors_[step.to];
    switch (step.kind) {
      case ProgramStep::Kind::own:
        issue("mix",
              reads(from),
              writes(to),
              on_host(rank_.device, [to = to.data(), from = from.data(), count = rank_.size()] {
                mix(to, from, count);
              }));
        return;
      case ProgramStep::Kind::reduce:
        all_reduce(communicator, from, step.reduction);
        return;
      case ProgramStep::Kind::broadcast:
        broadcast(communicator, from, step.root);
        return;
      case ProgramStep::Kind::exchange:
        all_to_all(communicator, from, to);
        return;
      case ProgramStep::Kind::pass:
        if (rank_.rank() == step.root) {
          send(communicator, from, step.partner);
        } else if (rank_.rank() == step.partner) {
          receive(communicator, to, step.root);
        }
        return;
    }
  }
  [[nodiscard]] State state() const {
    State state;
    for (auto const& tensor : tensors_) {
      state.push_back(to_host(tensor));
    }
    return state;
  }
  void synchronize() const {
    for (auto const& communicator : communicators_) {
      communicator.synchronize();
    }
  }
  /// Waits for everything, and ignores the failures, so that no device writes them to the log.
  void hear_failures() const noexcept {
    for (auto const& communicator : communicators_) {
      try {
        communicator.synchronize();
      } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): to be ignored
      }
    }
  }

 private:
  Rank<R> const& rank_;
  StreamPool<R> pool_;
  std::vector<comm::Communicator<R>> communicators_;
  std::vector<Tensor<std::int64_t, R>> tensors_;
};

template <class R>
class RandomCollectives : public ::testing::Test {
 protected:
  /// Calls `body(rank, program, engine)` on 2 to 8 ranks, with an engine that is at the same place
  /// on all of them.
  template <class Body>
  void run_programs(int programs, std::chrono::nanoseconds timeout, Body const& body) {
    std::mt19937_64 seeds(test_seed());
    for (int i = 0; i < programs; ++i) {
      auto const seed = seeds();
      on_ranks<R>(2 + i % 7,
                  [&](Rank<R> const& rank) {
                    std::mt19937_64 engine(seed);
                    auto const program = random_program(engine, rank.size());
                    ProgramRank<R> runner(rank, timeout);
                    body(rank, program, runner, engine);
                  },
                  {.timeout = std::chrono::hours(1)});
    }
  }
};
TYPED_TEST_SUITE(RandomCollectives, ThreadRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(RandomCollectives, give_every_rank_what_it_must_get) {
  auto const body = [](auto const& rank, auto const& program, auto& runner, auto& /*engine*/) {
    std::vector<State> expected;
    for (int other = 0; other < rank.size(); ++other) {
      expected.push_back(first_state(other, rank.size()));
    }
    // The groups of operations may differ between the ranks.
    std::mt19937_64 own(static_cast<std::uint64_t>(rank.rank()));
    for (auto const& step : program) {
      runner.run(step, static_cast<int>(own() % 2));
      compute(step, expected);
    }
    ASSERT_EQ(runner.state(), expected[static_cast<std::size_t>(rank.rank())]);
  };
  // No failure may be reported, so that a false report would end the test.
  auto const programs = env::integer("MSSTREAM_TEST_COLLECTIVE_PROGRAMS", 40, 1, 1'000'000);
  this->run_programs(static_cast<int>(programs), std::chrono::hours(1), body);
}

TYPED_TEST(RandomCollectives, end_on_all_ranks_if_one_leaves_a_step_out) {
  auto const body = [](auto const& rank, auto const& program, auto& runner, auto& engine) {
    std::vector<std::size_t> collectives;
    for (std::size_t i = 0; i < program.size(); ++i) {
      if (program[i].kind != ProgramStep::Kind::own && program[i].kind != ProgramStep::Kind::pass) {
        collectives.push_back(i);
      }
    }
    if (collectives.empty()) {
      return;
    }
    auto const left_out = collectives[engine() % collectives.size()];
    auto const leaver = static_cast<int>(engine() % static_cast<std::uint64_t>(rank.size()));
    // The others have one collective more than this rank, so that they cannot come to their end.
    // A rank may wait for another communicator: then only the timeout tells.
    auto const run = [&] {
      for (std::size_t i = 0; i < program.size(); ++i) {
        if (i != left_out || rank.rank() != leaver) {
          runner.run(program[i], 0);
        }
      }
      runner.synchronize();
      throw std::runtime_error("the rank has not been told");
    };
    if (rank.rank() == leaver) {
      try {
        run();
      } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): it may come to its end
      }
      runner.hear_failures();
      return;
    }
    try {
      run();
    } catch (comm::PeerLost const&) {         // NOLINT(bugprone-empty-catch): expected
    } catch (comm::CollectiveError const&) {  // NOLINT(bugprone-empty-catch): expected
    }
    runner.hear_failures();
  };
  this->run_programs(14, std::chrono::milliseconds(250), body);
}

}  // namespace
}  // namespace msstream::testing
